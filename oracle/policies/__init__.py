"""Policies: rules that name a draft length at every position, scored side by side.

`parse_policy` reads a policy's text form, `lengths_of` lays its draft lengths out for the kernels.
"""

from oracle.policies.adaptive import Confidence, Goodput, Slope, Survival
from oracle.policies.fixed import Blind, Budget, Call, Column, Oracle, Static
from oracle.policies.inputs import Inputs, Training, inputs_of
from oracle.policies.lengths import lengths_of
from oracle.policies.logged import Logged
from oracle.policies.policy import Capped, Policy
from oracle.policies.sets import PolicySet, beside, reference_policies, static
from oracle.policies.text import KNOWN_FORMS, parse_policy

__all__ = [
    "KNOWN_FORMS",
    "Blind",
    "Budget",
    "Call",
    "Capped",
    "Column",
    "Confidence",
    "Goodput",
    "Inputs",
    "Logged",
    "Oracle",
    "Policy",
    "PolicySet",
    "Slope",
    "Static",
    "Survival",
    "Training",
    "beside",
    "inputs_of",
    "lengths_of",
    "parse_policy",
    "reference_policies",
    "static",
]
