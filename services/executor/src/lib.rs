//! The executor service: one attempt at one step.
