//! A turn of a conversation in a report: a run of one step.

use super::gather::{Facts, StepFacts};
use cairn_engine::command::SubmitTurn;
use cairn_engine::message::Part;
use cairn_engine::session::{Place, RunStatus, Slot, Turn};

/// What a person says in a turn.
pub(super) fn said(turn: &SubmitTurn) -> &str {
    let parts = turn.message.iter().flat_map(|message| &message.parts);
    let mut texts = parts.filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.next().unwrap_or_default()
}

impl<'a> Facts<'a> {
    /// A turn has one step, and its last reply is the answer.
    pub(super) fn of_turn(self, goal: &'a str) -> Self {
        let place = Place::all().take(1);
        let steps = Turn::draft().steps;
        let labels = steps
            .iter()
            .zip(place)
            .map(|(step, place)| step.label(place));
        Self {
            goal,
            is_turn: true,
            status: RunStatus::Running,
            revision: 1,
            steps: labels.map(StepFacts::new).collect(),
            plan: Slot::all().take(1).collect(),
            ..self
        }
    }
}
