//! The planner service: from a goal to a plan.
