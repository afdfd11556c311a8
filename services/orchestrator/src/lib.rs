//! The orchestrator service: drives the Step state machine.
