//! What people decided, in words.

use cairn_engine::pending::PendingId;
use cairn_engine::session::DecisionKind;
use cairn_views::decisions::words;

#[test]
fn a_decision_is_worded_with_its_reason_if_it_has_one() {
    use DecisionKind as D;
    let pending = PendingId::parse("approval-1.2.1.0.0-2").unwrap();
    let verb = "approve".to_owned();
    let paused = |reason: &str| D::RunPaused {
        reason: reason.to_owned(),
    };
    let tool = "edit".to_owned();
    let session = "s".to_owned();
    let cases = [
        (
            D::Settled { pending, verb },
            "decided approval-1.2.1.0.0-2: approve",
        ),
        (paused(""), "paused the run"),
        (paused("lunch"), "paused the run: lunch"),
        (
            D::ApprovalGranted { grant: 3, tool },
            "approved further calls of edit (approval 3)",
        ),
        (
            D::Forked { session, at_seq: 7 },
            "forked it from s at event 7",
        ),
    ];
    for (kind, expected) in cases {
        assert_eq!(words(&kind), expected);
    }
}
