//! Names the messages of people that are lost with what they were sent to.

use super::Decision;
use crate::event::AttemptRef;
use crate::failure::Failure;

impl Decision<'_> {
    /// A failure of an attempt, with the messages that are lost with it.
    pub(super) fn naming_lost_steering(
        &self,
        attempt: AttemptRef,
        mut failure: Failure,
    ) -> Failure {
        if let Some(lost) = self.lost_steering(&[attempt]) {
            failure.message = format!("{}; {lost}", failure.message);
        }
        failure
    }

    /// Why a run is cancelled, with the messages to its attempts that are lost with it. To be asked while
    /// they run.
    pub(crate) fn cancel_reason(&self, run: u32, reason: &str) -> String {
        match (reason, self.lost_steering(&self.running(run))) {
            (reason, None) => reason.to_owned(),
            ("", Some(lost)) => lost,
            (reason, Some(lost)) => format!("{reason}; {lost}"),
        }
    }

    /// Of a turn that keeps its work no message is lost, and of another one that does not complete each is. What
    /// the model of a step has read is part of its work; only what it has not read is lost.
    fn lost_steering(&self, attempts: &[AttemptRef]) -> Option<String> {
        let (mut lost, mut is_turn) = (Vec::new(), false);
        for name in attempts {
            let Some(running) = self.session.attempt(*name) else {
                continue;
            };
            if self.session.kept_of_turn(name.run).is_some() {
                continue;
            }
            is_turn |= self.session.turn(*name).is_some();
            let messages = running.steering.iter();
            let messages = messages.filter(|said| is_turn || said.op > running.ops_through);
            for said in messages {
                let named = format!("{:?}", said.headline);
                // One message may have gone to several steps.
                if !lost.contains(&named) {
                    lost.push(named);
                }
            }
        }
        let lost = Some(lost.join(", ")).filter(|lost| !lost.is_empty())?;
        Some(match is_turn {
            true => format!("these messages to the turn are lost with it: {lost}"),
            false => format!("these messages were not read: {lost}"),
        })
    }
}
