/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every option, one line each:
 *
 *     ZERO__OPTION(ID, name, TYPE, default, allowed, group, help)
 *
 * The variable is ZERO_ID, the name in files and API calls is `name`. Types and the language of
 * `allowed` are described in option_value.h. Included several times, so there is no guard; groups
 * stay together, because listings and the manual page show them in this order.
 */
ZERO__OPTION(STAGE, stage, INT, "3", "[0,3]", "Sharding",
             "What is sharded over the ranks: 0 nothing, 1 optimizer states, 2 gradients too, "
             "3 parameters too")
ZERO__OPTION(REDUCE_AT, reduce_at, CHOICE, "auto", "auto|micro|boundary", "Sharding",
             "When gradients are reduced: after every micro-batch, or once at the end of the step; "
             "auto: boundary in stages 0 and 1, micro in stages 2 and 3. With several "
             "micro-batches the two add in another order, which other bits may come of")
ZERO__OPTION(NUMERICS, numerics, CHOICE, "ordered", "ordered|relaxed", "Sharding",
             "Sums of gradients: ordered adds them in the order of the ranks, so that every "
             "transport and stage gives the same bits (see reduce_at); relaxed lets ucx and ofi "
             "add round the hosts, which sends less between them, and nccl in an order of its own")
ZERO__OPTION(ACCUM, accum, INT, "1", "[1,65536]", "Sharding",
             "Most micro-batches of a training step; zero_begin() says which one is the last")
ZERO__OPTION(BUCKET_BYTES, bucket_bytes, BYTES, "64M", "[4K,]", "Sharding",
             "Gradients that are put together for one reduction; up to twice as much is on its "
             "way, and those of the largest unit")
ZERO__OPTION(PREFETCH_BYTES, prefetch_bytes, BYTES, "128M", "[0,]", "Sharding",
             "Parameters gathered ahead of their use in stage 3, and, counted apart, activations "
             "on their way from and to the device (one at least); 0: each when asked")
ZERO__OPTION(RETAIN_BYTES, retain_bytes, BYTES, "0", "[-1,]", "Sharding",
             "Gathered parameters kept from one use to a later one in stage 3; -1: not even to the "
             "very next")
ZERO__OPTION(MAP, map, CHOICE, "auto", "auto|0|1", "Sharding",
             "Map the ranks' shards side by side in stage 3 instead of gathering copies, where the "
             "transport can and shards are whole pages; auto: if the processors that ranks may use "
             "are all on one memory node, where no copy is faster; 1: warns where that cannot be")
ZERO__OPTION(RELAY_BYTES, relay_bytes, BYTES, "4M", "[4K,256M]", "Sharding",
             "Size of the pieces in which collectives go through memory of the host, where the "
             "transport cannot take that of the device; a rank has six of them")
ZERO__OPTION(PERSISTENT_BYTES, persistent_bytes, BYTES, "0", "[0,]", "Sharding",
             "Parameters up to this size are never sharded")
ZERO__OPTION(PERSISTENT_CAP_BYTES, persistent_cap_bytes, BYTES, "64M", "[0,]", "Sharding",
             "Most bytes that ZERO_PERSISTENT_BYTES may keep whole, in order of registration")

ZERO__OPTION(OPTIMIZER, optimizer, CHOICE, "adamw", "adamw|adam|sgd|callback", "Optimizer",
             "Rule of the update; callback: the application's own")
ZERO__OPTION(STATE_DTYPE, state_dtype, CHOICE, "fp32", "fp32|bf16", "Optimizer",
             "Type of the optimizer's moments; bf16 halves them, rounded at random so that small "
             "changes are kept on average, and is not bit for bit what fp32 gives")
ZERO__OPTION(LR, lr, REAL, "1e-3", "[0,1e6]", "Optimizer", "Learning rate")
ZERO__OPTION(WEIGHT_DECAY, weight_decay, REAL, "0.01", "[0,1e6]", "Optimizer",
             "Weight decay: decoupled for adamw, added to the gradient for adam and sgd")
ZERO__OPTION(BETA1, beta1, REAL, "0.9", "[0,1)", "Optimizer", "Decay of Adam's first moment")
ZERO__OPTION(BETA2, beta2, REAL, "0.999", "[0,1)", "Optimizer", "Decay of Adam's second moment")
ZERO__OPTION(EPS, eps, REAL, "1e-8", "[1e-30,1]", "Optimizer",
             "Term that keeps Adam from dividing by 0")
ZERO__OPTION(MOMENTUM, momentum, REAL, "0", "[0,1)", "Optimizer", "Momentum of sgd")
ZERO__OPTION(CLIP, clip, REAL, "0", "[0,1e30]", "Optimizer",
             "Largest global norm of the gradient; 0: no clipping")
ZERO__OPTION(UPDATE_AT, update_at, CHOICE, "end", "end|backward", "Optimizer",
             "When optimizer states outside the device are updated: at the end of a step, or "
             "beside its last backward pass, unit by unit as gradients are reduced, which needs no "
             "room for those, but can neither clip nor skip a step whose gradients overflow")
ZERO__OPTION(LOSS_SCALE, loss_scale, REAL, "dynamic", "dynamic=0 [1e-30,1e30]", "Optimizer",
             "Factor of the loss of fp16 models, or dynamic")
ZERO__OPTION(LOSS_SCALE_INIT, loss_scale_init, REAL, "65536", "[1,16777216]", "Optimizer",
             "First value of the dynamic loss scale, which stays within the same limits")
ZERO__OPTION(LOSS_SCALE_WINDOW, loss_scale_window, INT, "1000", "[1,1000000000]", "Optimizer",
             "Good steps in a row after which the dynamic loss scale doubles")

ZERO__OPTION(MEMORY_LIMIT, memory_limit, LIMIT, "", "", "Memory",
             "Most bytes that a rank may reserve, as device:BYTES,cpu:BYTES")

ZERO__OPTION(OFFLOAD, offload, PLACEMENT, "", "", "Offload",
             "What lies outside the device, and where: "
             "optimizer:nvme,parameters:cpu,activations:cpu, also in fractions, "
             "optimizer:cpu:0.6+nvme:0.4, or in as much of each as there is room for, "
             "optimizer:cpu+nvme; auto: everything, where it is fastest and has room; a tier is "
             "an offload plugin, by name or absolute path")
ZERO__OPTION(TILE_BYTES, tile_bytes, BYTES, "2M", "[32K,1G]", "Offload",
             "Bytes of each optimizer state that an update outside the device works on at a time")
ZERO__OPTION(OFFLOAD_MEASURE, offload_measure, BOOL, "1", "", "Offload",
             "Measure how fast a disk is before the first step, where no earlier job has; 0: take "
             "what an earlier one has measured, and forecast nothing where none has")

ZERO__OPTION(COMM, comm, TEXT, "", "", "Ranks and devices",
             "Communication plugin, by name or absolute path; empty: self for one rank, shm for "
             "ranks of one host, for several hosts the first of ucx and ofi that works on all of "
             "them; before these nccl with ZERO_NUMERICS=relaxed and a GPU for each rank")
ZERO__OPTION(PLUGIN_PATH, plugin_path, TEXT, "", "", "Ranks and devices",
             "Folders searched for plugins before the installed one, separated by colons")
ZERO__OPTION(TIMEOUT, timeout, REAL, "600", "[0.1,1e9]", "Ranks and devices",
             "Seconds after which a rank that does not answer is an error; while another rank is "
             "heard (ZERO_HEARTBEAT) to work with its disk, the others wait on")
ZERO__OPTION(JOIN_TIMEOUT, join_timeout, REAL, "auto", "auto=0 [0.1,86400]", "Ranks and devices",
             "Seconds that ranks wait for each other at the start; auto: 60, or ZERO_TIMEOUT if "
             "that is less")
ZERO__OPTION(HEARTBEAT, heartbeat, REAL, "3", "0=0 [0.1,1e9]", "Ranks and devices",
             "Seconds without a sign of life after which a rank counts as stopped; that of rank 0 "
             "counts; 0: none is")
ZERO__OPTION(DEVICE, device, TEXT, "host", "", "Ranks and devices",
             "Device that trains: host, or a device plugin by name or absolute path, cuda for "
             "example; a number may follow, as in cuda:0, which all ranks of a host then share, or "
             "have each of its own where each sees one alone; else a rank takes that of its place "
             "on its host")
ZERO__OPTION(THREADS, threads, INT, "0", "[0,1024]", "Ranks and devices",
             "Threads of a rank for CPU work; 0: the cores that it may use and has the time of, "
             "divided by the ranks that may use them too")
ZERO__OPTION(ISA, isa, CHOICE, "auto", "auto|avx512|avx2|scalar", "Ranks and devices",
             "Instruction set of the CPU kernels; all of them give the same bits")

ZERO__OPTION(RENDEZVOUS, rendezvous, CHOICE, "auto", "auto|unix|tcp", "Several hosts",
             "How ranks reach rank 0; auto: ranks on its host by a Unix socket, others by TCP")
ZERO__OPTION(SECRET_FILE, secret_file, TEXT, "", "", "Several hosts",
             "File with the secret of the job, 64 hex digits, the same on all hosts; it must "
             "belong to the user and have mode 0600 or 0400")
ZERO__OPTION(SECRET_FD, secret_fd, INT, "-1", "[-1,1048576]", "Several hosts",
             "Inherited descriptor from which the secret is read instead; -1: none")
ZERO__OPTION(INSECURE, insecure, BOOL, "0", "", "Several hosts",
             "Let ranks on several hosts meet without a secret: whoever reaches the port can join")
ZERO__OPTION(PORT, port, INT, "0", "[0,65535]", "Several hosts",
             "TCP port of rank 0; 0: MASTER_PORT, or the next one under torchrun, which holds that "
             "itself")
ZERO__OPTION(INTERFACE, interface, TEXT, "", "", "Several hosts",
             "Network interface for other hosts: rank 0 listens at its address, and data moves "
             "over it; empty: the address that MASTER_ADDR names, or, where that is the loopback, "
             "the interface by which other hosts come; data over the interface by which a rank "
             "reaches rank 0")

ZERO__OPTION(CRASH_DIR, crash_dir, TEXT, "", "", "Log",
             "Folder for a report of every rank when a job fails, with its last operations; zero "
             "report crash reads them; one folder may serve many jobs; empty: none are written")
ZERO__OPTION(
    LOG, log, LEVELS, "warn", "", "Log",
    "none, error, warn, info, debug or trace, with exceptions by component: warn,shm:trace; these "
    "are options, job, plugin, engine, and plugins by their names")
