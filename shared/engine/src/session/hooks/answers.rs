//! What answers of hooks change.

use super::{HookAsk, refused};
use crate::conversation::Op;
use crate::event::{AttemptRef, HooksAnswered, HooksChanged};
use crate::hooks::{Gate, Mutation, Outcome, Point, VerdictKind};
use crate::message::Message;
use crate::session::{Apply, Attempt, Envelope, Session};
use crate::transitions::{Applied, IllegalTransition};

impl Attempt {
    /// What hooks say of a compaction counts until the next tool turn, or until a person has decided.
    fn take_answer_to_compaction(&mut self, verdict: VerdictKind, changes: Option<&Mutation>) {
        if !matches!(verdict, VerdictKind::Proceed | VerdictKind::Mutate) {
            // What the model wants needs no person.
            self.wants_compaction = None;
            return;
        }
        self.compaction_asked = Some(self.times_full);
        if let Some(Mutation::Prompt(prompt)) = changes {
            self.summary_prompt = Some(prompt.clone());
        }
    }
}

impl Session {
    /// Takes an answer for which an attempt waits.
    fn take_answer_to_attempt(&mut self, gate: Gate, outcome: &Outcome) -> Applied {
        let running = self.attempt_mut(gate.attempt)?;
        running.gate = None;
        running.retry = None;
        running.held_usage = None;
        match (gate.point, &outcome.mutation) {
            (Point::PreRequest, changes) => {
                running.requests_passed = gate.turn + 1;
                // The executor does not ask its model.
                running.rewrites += u32::from(outcome.verdict == VerdictKind::Skip);
                let ops = changes.as_ref().and_then(Mutation::ops);
                running.say(ops.unwrap_or_default().iter().cloned(), false);
                Ok(())
            }
            (Point::PostRequest, Some(Mutation::Text(text))) => {
                running.rewrites += 1;
                self.replace_reply(gate.attempt, text)
            }
            (Point::OnCompaction, changes) => {
                running.take_answer_to_compaction(outcome.verdict, changes.as_ref());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The last reply says this instead.
    fn replace_reply(&mut self, attempt: AttemptRef, text: &str) -> Applied {
        let conversation = self.conversation_mut(attempt)?;
        let missing = || IllegalTransition::missing(format_args!("reply of {attempt:?}"));
        let last = conversation.behind.last().ok_or_else(missing)?;
        let (number, message) = (last.number, Message::clone(&last.message));
        conversation.apply(Op::Update {
            number,
            message: message.saying(text),
        })
    }

    /// Takes an answer for which a run waits.
    fn take_answer_to_run(&mut self, gate: Gate, outcome: &Outcome, at: u64) -> Applied {
        let number = gate.attempt.run;
        let run = self.run_mut(number)?;
        let hooks = &mut run.hooks;
        hooks.open.retain(|open| *open != gate);
        let asks = outcome.verdict == VerdictKind::RequireApproval;
        match gate.point {
            Point::OnPlanProposed => {
                hooks.plan = None;
                hooks.reviews_plan = asks;
                return Ok(());
            }
            // A person can deny the rest.
            Point::OnStepStart if asks || outcome.verdict == VerdictKind::Proceed => {
                hooks.step_passed = Some(gate.attempt);
            }
            _ => {}
        }
        if !asks || run.ending.is_some() {
            return Ok(());
        }
        let ask = HookAsk::Approval {
            gate,
            hook: outcome.hook.clone(),
            reason: outcome.text.clone(),
            since: at,
        };
        self.hold_for_person(number, ask)
    }

    /// A run waits for a person. What its models were asked for is lost.
    fn hold_for_person(&mut self, number: u32, ask: HookAsk) -> Applied {
        let hooks = &mut self.run_mut(number)?.hooks;
        if hooks.asks.is_some() {
            let what = format_args!("hooks of run {number}");
            return Err(IllegalTransition::not_allowed(
                what,
                "a person is asked",
                "asked",
            ));
        }
        hooks.asks = Some(ask);
        hooks.times_asked += 1;
        self.drop_summaries(number)
    }
}

impl Apply for HooksAnswered {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let gate = self.gate;
        if !session.is_open(gate) {
            return Err(refused(gate, "not open", "answered"));
        }
        if !self.outcomes.iter().all(|it| it.fits(gate.point)) {
            return Err(refused(gate, "open", "answered otherwise"));
        }
        if gate.point == Point::PreToolCall {
            return session.take_answers_to_calls(gate, &self.outcomes);
        }
        let [outcome] = &self.outcomes[..] else {
            return Err(refused(gate, "one answer", self.outcomes.len()));
        };
        match gate.point {
            Point::OnRunEnd => {
                session.ended_hooks.retain(|ended| ended.gate() != gate);
                Ok(())
            }
            Point::PostToolCall => session.take_answer_to_result(gate, outcome),
            point if point.holds_attempt() => session.take_answer_to_attempt(gate, outcome),
            _ => session.take_answer_to_run(gate, outcome, envelope.at),
        }
    }
}

impl Apply for HooksChanged {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let ask = HookAsk::Changed {
            missing: self.missing.clone(),
            changed: self.changed.clone(),
            since: envelope.at,
        };
        session.hold_for_person(self.run, ask)
    }
}
