//! Objectives: policy losses, formulas by hand, derivatives of each family.

mod by_hand;
mod families;
mod policy_loss;
