#include "model/manifold_relation.h"

#include <stdbool.h>

double manifold_tokens(const struct task_shape *shape, int centred, enum selection kind, int a, int b)
{
    const bool common = a < shape->common, together = common == (b < shape->common);
    const double mean = centred && together ? 1.0 / (common ? shape->common : shape->vocabulary - shape->common) : 0.0;
    switch (kind) {
    case SELECTION_SAME: return (a == b) - mean;
    case SELECTION_RARE: return common ? 0.0 : (a == b) - mean;
    case SELECTION_ASSOCIATED: return common && together ? (a == (b ^ 1)) - mean : 0.0;
    case SELECTION_SHIFT: break;
    }
    return 0.0;
}

double manifold_positions(const struct task_shape *shape, int centred, int shift, int a, int b)
{
    const int period = shape->period;
    if (a / period != b / period)
        return 0.0;
    return (((a - shift) % period + period) % period == b % period) - (centred ? 1.0 / period : 0.0);
}
