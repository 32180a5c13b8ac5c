/* SPDX-License-Identifier: Apache-2.0 */
/* One bar a column, its classes one upon the other in the order of the first run. */
#include "config.h"

#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEIGHT 300.0 /* of the tallest bar's room */
#define LEFT 70.0
#define TOP 40.0
#define BAR 56.0
#define GAP 40.0
#define LEGEND 150.0
#define MB 1e6

/* Told apart also without seeing red and green (Okabe and Ito, 2008), then shades of grey. */
static const char *const colours[MEMORY_CLASSES] = {
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f",
    "#4d4d4d", "#b3b3b3", "#262626", "#999999", "#666666", "#cccccc", "#333333", "#e6e6e6"};

/* What XML reads as marks is written as what it means. */
static void text_write(const char *s)
{
    for (; *s; s++) {
        const char *mark = *s == '&' ? "&amp;" : *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : NULL;
        mark ? fputs(mark, stdout) : putchar((unsigned char)*s < ' ' ? '?' : *s);
    }
}

static void label(double x, double y, const char *anchor, const char *text)
{
    printf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    text_write(text);
    puts("</text>");
}

/* 1, 2 or 5 times a power of ten, so that there are four to ten lines up to most. */
static double step_of(double most)
{
    double power = pow(10, floor(log10(most > 0 ? most : 1)));
    double lines = most / power;

    return lines >= 4 ? power : lines >= 2 ? power / 2 : power / 5;
}

static void axis(double most, double scale, double width)
{
    double step = step_of(most);

    for (int i = 0; i * step <= most * 1.0001; i++) {
        double y = TOP + HEIGHT - i * step * scale;
        char text[32];
        snprintf(text, sizeof text, "%g", i * step);
        printf("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n", LEFT,
               y, LEFT + width, y);
        label(LEFT - 8, y + 4, "end", text);
    }
    label(LEFT, TOP - 14, "end", "MB");
}

static void bar(const struct memory_columns *c, unsigned i, double scale)
{
    const struct memory_column *column = &c->list[i];
    double x = LEFT + GAP / 2 + i * (BAR + GAP), y = TOP + HEIGHT;
    char all[32];

    for (unsigned k = 0; k < c->n_classes; k++) {
        double height = (double)column->bytes[k] / MB * scale;
        y -= height;
        if (height > 0) {
            printf("<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" fill=\"%s\">",
                   x, y, BAR, height, colours[k]);
            fputs("<title>", stdout);
            text_write(c->classes[k]);
            printf(" %.1f MB</title></rect>\n", (double)column->bytes[k] / MB);
        }
    }
    snprintf(all, sizeof all, "%.4g", (double)column->all / MB);
    label(x + BAR / 2, y - 5, "middle", all);
    label(x + BAR / 2, TOP + HEIGHT + 16, "middle", column->run);
    label(x + BAR / 2, TOP + HEIGHT + 31, "middle", column->tier);
}

static void legend(const struct memory_columns *c, double x)
{
    for (unsigned k = 0; k < c->n_classes; k++) {
        double y = TOP + HEIGHT - 14 - 20.0 * k; /* as they lie in the bars */
        printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y,
               colours[k]);
        label(x + 18, y + 10, "start", c->classes[k]);
    }
}

void memory_svg_write(const struct memory_columns *c)
{
    double bars = c->n * (BAR + GAP), width = LEFT + bars + LEGEND, height = TOP + HEIGHT + 44;
    double most = 0;
    char title[192];

    for (unsigned i = 0; i < c->n; i++)
        most = fmax(most, (double)c->list[i].all / MB);
    double scale = most > 0 ? HEIGHT / most : 0;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
           "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n"
           "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
           width, height, width, height);
    snprintf(title, sizeof title, "Memory of a rank%s%s", *c->title ? ": " : "", c->title);
    label(LEFT + bars / 2, 18, "middle", title);
    axis(most, scale, bars);
    for (unsigned i = 0; i < c->n; i++)
        bar(c, i, scale);
    legend(c, LEFT + bars + 16);
    puts("</svg>");
}
