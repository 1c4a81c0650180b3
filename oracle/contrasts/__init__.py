"""Contrasts of draft lengths and of new experts by language context.

What belongs to what, said once:

- The decision at ``t`` belongs to the token at ``t``, the first one that its round emits ("each subsequent token is
  assigned to one local context"): k* of a decision is counted under the label of the token that comes next.
- Step ``j`` of a continuation from ``t`` is row ``t + j``, the row that emits token ``t + j``; its new experts are
  ``X(t, j) = U(t, j) - U(t, j - 1)``, and they are counted under the label of token ``t + j``. Step 0 is left out: it
  touches `top_k` experts by construction. Every position is an anchor once; steps past the end of a text are none.
- New experts become fewer as a continuation goes on, whatever its tokens are, so they are compared within one step and
  the differences averaged; a comparison that ignores the step can have the wrong sign.
- A draft whose token for position ``t + i`` is the first that differs leaves row ``t + i`` as it is: that row reads the
  tokens before, which matched. The first row that reads the wrong token is ``t + i + 1``, and from there on recorded
  experts are those of the verified tokens, routing those of the text.

Two comparisons of a group with another, side by side:

- *pooled*: ``Σ_j n_j (a_j - b_j) / Σ_j n_j``, with ``a_j`` and ``b_j`` the means over all generations and ``n_j`` what
  the group holds at step ``j``. It holds the differences between texts in which the two occur.
- *within generations*: ``Σ w (a - b) / Σ w`` over the generations (and steps) that hold both, with the weights
  ``w = n_a n_b / (n_a + n_b)`` of a regression with one constant a generation and step.
"""

from oracle.contrasts.comparisons import Comparison, Difference, GroupMean
from oracle.contrasts.findings import Finding
from oracle.contrasts.groups import ALL, Group
from oracle.contrasts.study import Contrasts, contrasts

__all__ = ["ALL", "Comparison", "Contrasts", "Difference", "Finding", "Group", "GroupMean", "contrasts"]
