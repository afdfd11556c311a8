//! What people decided, in a few words.

use cairn_engine::session::DecisionKind;

/// A decision as lists show it: `decided approval-1.2.1.0.0: approve`. Reasons and names in it are
/// untrusted.
pub fn words(kind: &DecisionKind) -> String {
    use DecisionKind as D;
    let because = |what: &str, reason: &str| match reason {
        "" => what.to_owned(),
        reason => format!("{what}: {reason}"),
    };
    match kind {
        D::Settled { pending, verb } => format!("decided {pending}: {verb}"),
        D::RunStarted => "started the run".to_owned(),
        D::RunPaused { reason } => because("paused the run", reason),
        D::RunResumed => "resumed the run".to_owned(),
        D::RunCancelled { reason } => because("cancelled the run", reason),
        D::StepSkipped { reason } => because("skipped the step", reason),
        D::RevisionRequested { feedback } => because("asked for another plan", feedback),
        D::PlanProposed { proposal } => format!("proposed plan {proposal}"),
        D::PlanApplied { revision } => format!("put revision {revision} into force"),
        D::ApprovalGranted { grant, tool } => {
            format!("approved further calls of {tool} (approval {grant})")
        }
        D::ApprovalRevoked { grant } => format!("revoked approval {grant}"),
        D::ModeSet { mode } => format!("set the mode {}", mode.name()),
        D::Forked { session, at_seq } => format!("forked it from {session} at event {at_seq}"),
    }
}
