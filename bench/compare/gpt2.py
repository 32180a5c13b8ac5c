# SPDX-License-Identifier: Apache-2.0
"""GPT-2 in PyTorch with the shapes and initial values of zero-gpt2, for comparison."""
import math

import torch
from torch import nn
from torch.nn import functional as F

# layers, heads, width, context, rows of vocabulary
PRESETS = {
    "tiny": (4, 4, 128, 128, 256),
    "124M": (12, 12, 768, 1024, 50304),
    "350M": (24, 16, 1024, 1024, 50304),
    "1.5B": (48, 25, 1600, 1024, 50304),
}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        q, k, v = (t.view(batch, seq, self.heads, -1).transpose(1, 2)
                   for t in self.c_attn(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, seq, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Returns the mean loss; the output layer shares the token embedding."""

    def __init__(self, preset):
        super().__init__()
        layers, heads, width, context, self.vocab = PRESETS[preset]
        self.wte = nn.Embedding(self.vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        residual = 0.02 / math.sqrt(2 * layers)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=residual if name.endswith("c_proj.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, self.vocab).float(), targets.view(-1))


def groups(parameters, weight_decay):
    """Matrices decay, vectors do not."""
    parameters = list(parameters)
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
