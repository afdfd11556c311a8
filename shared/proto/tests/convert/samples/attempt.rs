//! What an attempt writes beside its replies and calls: sub-goals and notes.

use super::{ATTEMPT, Kinds};
use cairn_engine::event::{self, EventKind};

pub(super) fn parts() -> Kinds {
    kinds! {
        "sub_goal_added": SubGoalAdded {
            attempt: ATTEMPT, index: 1, text: "Read the matches".into()
        }
        "sub_goal_focused": SubGoalFocused { attempt: ATTEMPT, index: 1 }
        "sub_goal_completed": SubGoalCompleted {
            attempt: ATTEMPT, index: 1, summary: "two of five matter".into()
        }
        "sub_goal_dropped": SubGoalDropped { attempt: ATTEMPT, index: 1 }
        "scratchpad_written": ScratchpadWritten {
            attempt: ATTEMPT, text: "docs/memory.md:14".into(), replaces: false
        }
        "scratchpad_written.replaces": ScratchpadWritten {
            attempt: ATTEMPT, text: "docs/memory.md:15".into(), replaces: true
        }
    }
}
