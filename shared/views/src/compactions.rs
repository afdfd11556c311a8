//! Compactions of conversations: what their model calls cost, and which requests wait for a person.
//!
//! A summary is no reply, so what it used up stands in events of its own. A question whose answer is lost is charged
//! as it was estimated, by an event that may not name it, such as the end of the step.

use cairn_engine::command::Command;
use cairn_engine::conversation::{CompactionKind, ConversationRef};
use cairn_engine::event::{AttemptRef, Budget, ContextChanged, Event, EventKind, SummaryAsked};
use cairn_engine::message::Usage;
use cairn_engine::pending::Subject;
use cairn_engine::session::StepNo;
use std::collections::{BTreeMap, BTreeSet};

/// The step that an attempt works on: run and step.
type At = (u32, StepNo);

/// The open questions for summaries, and the requests that do not fit. Folded from all events of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compactions {
    /// The questions without an answer.
    open: BTreeMap<At, Question>,
    /// Attempts whose model asked for a compaction itself: no person is asked if nothing comes of it.
    by_model: BTreeSet<At>,
    /// Attempts whose next request does not fit. A person is asked.
    full: BTreeSet<At>,
    /// The run of the turn that began last, and its context.
    turn: Option<(u32, String)>,
    /// Changes of contexts by clients that have no answer yet, by the numbers of their events.
    changes: BTreeSet<u64>,
}

/// A model was asked for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    attempt: AttemptRef,
    behind_mark: bool,
    by_model: bool,
    /// Tokens of the question.
    estimate: u64,
}

impl Question {
    /// What a lost answer is charged as.
    fn lost(self) -> (AttemptRef, Usage) {
        (self.attempt, Usage::of_lost_answer(self.estimate))
    }
}

fn place(attempt: AttemptRef) -> At {
    (attempt.run, attempt.step)
}

impl Compactions {
    /// The next request of a step does not fit, and a person is asked.
    pub fn is_full(&self, run: u32, step: StepNo) -> bool {
        self.full.contains(&(run, step))
    }

    /// The same for all steps of a run.
    pub fn full_steps(&self, run: u32) -> impl Iterator<Item = StepNo> {
        let full = self.full.iter();
        full.filter(move |(of, _)| *of == run)
            .map(|(_, step)| *step)
    }

    /// Takes the event numbered `seq`, and returns what it adds to the usage of attempts beside their replies.
    pub fn take(&mut self, seq: u64, event: &Event) -> Vec<(AttemptRef, Usage)> {
        use EventKind as E;
        let is_change = self.changes.remove(&event.answers);
        match &event.kind {
            E::CommandReceived(it) => {
                if matches!(it.command, Command::ChangeContext(_)) {
                    self.changes.insert(seq);
                }
            }
            E::RunStarted(it) => {
                let turn = it.turn.as_ref();
                self.turn = turn.map(|turn| (it.run, turn.context.clone()));
            }
            E::CompactionRequested(it) => {
                self.by_model.insert(place(it.attempt));
            }
            E::SummaryAsked(it) => return self.ask(it),
            E::ContextCompacted(it) => {
                let open = self.open.remove(&place(it.attempt));
                self.by_model.remove(&place(it.attempt));
                // A history view answers no question.
                let lost = open.filter(|_| it.kind == CompactionKind::History);
                let lost = lost.into_iter().map(Question::lost);
                return lost.chain([(it.attempt, it.usage)]).collect();
            }
            E::ContextFull(it) => {
                self.fill(it.attempt);
                return vec![(it.attempt, it.usage)];
            }
            E::Decided(it) => {
                if let Subject::Context(attempt) = it.pending.subject {
                    self.full.remove(&place(attempt));
                }
            }
            E::ContextChanged(it) if is_change => return self.change(it),
            _ => return self.end(&event.kind),
        }
        Vec::new()
    }

    /// A question that takes the place of another one: only if the answer to that was lost, it is charged.
    fn ask(&mut self, asked: &SummaryAsked) -> Vec<(AttemptRef, Usage)> {
        let at = place(asked.attempt);
        let question = Question {
            attempt: asked.attempt,
            behind_mark: asked.messages.behind_mark,
            by_model: self.by_model.contains(&at),
            estimate: asked.estimate,
        };
        let before = self.open.insert(at, question);
        let lost = before.filter(|_| asked.again);
        lost.into_iter().map(Question::lost).collect()
    }

    /// No compaction helps.
    fn fill(&mut self, attempt: AttemptRef) {
        let at = place(attempt);
        match self.open.remove(&at) {
            Some(question) if question.by_model => {
                self.by_model.remove(&at);
            }
            _ => {
                self.full.insert(at);
            }
        }
    }

    /// A client has changed a context: its turn is compacted anew.
    fn change(&mut self, changed: &ContextChanged) -> Vec<(AttemptRef, Usage)> {
        let ConversationRef::Context(name) = &changed.conversation else {
            return Vec::new();
        };
        let turn = self.turn.as_ref().filter(|(_, context)| context == name);
        let Some(run) = turn.map(|(run, _)| *run) else {
            return Vec::new();
        };
        self.full.retain(|(of, _)| *of != run);
        self.lose(|(of, _), question| of == run && !question.behind_mark)
    }

    /// The end of a step or a run's pause ends what was asked of its models.
    fn end(&mut self, kind: &EventKind) -> Vec<(AttemptRef, Usage)> {
        use EventKind as E;
        match kind {
            E::StepStarted(it) => {
                self.forget(place(it.attempt));
                Vec::new()
            }
            E::StepCompleted(it) => self.end_step(place(it.attempt)),
            E::StepFailed(it) => self.end_step(place(it.attempt)),
            E::StepSkipped(it) => self.end_step((it.run, it.step)),
            E::RunPaused(it) => self.lose(|(run, _), _| run == it.run),
            E::BudgetExhausted(it) if it.budget == Budget::Time => {
                self.lose(|(run, _), _| run == it.run)
            }
            _ => Vec::new(),
        }
    }

    fn end_step(&mut self, at: At) -> Vec<(AttemptRef, Usage)> {
        let lost = self.lose(|of, _| of == at);
        self.forget(at);
        lost
    }

    fn forget(&mut self, at: At) {
        self.open.remove(&at);
        self.by_model.remove(&at);
        self.full.remove(&at);
    }

    /// The answers to these questions count no more.
    fn lose(&mut self, is_lost: impl Fn(At, &Question) -> bool) -> Vec<(AttemptRef, Usage)> {
        let open = std::mem::take(&mut self.open);
        let (lost, open): (BTreeMap<_, _>, BTreeMap<_, _>) = open
            .into_iter()
            .partition(|(at, question)| is_lost(*at, question));
        self.open = open;
        lost.into_values().map(Question::lost).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::conversation::CompactedMessages;
    use cairn_engine::event::{
        CompactionRequested, ContextCompacted, ContextFull, RunPaused, StepSkipped,
    };
    use cairn_engine::session::FullCause;

    const AT: AttemptRef = AttemptRef {
        run: 1,
        step: StepNo::new(1),
        attempt: 1,
    };

    fn asked(estimate: u64, again: bool) -> EventKind {
        EventKind::SummaryAsked(SummaryAsked {
            attempt: AT,
            messages: CompactedMessages::default(),
            prompt: String::new(),
            estimate,
            max_output_tokens: 100,
            again,
        })
    }

    fn compacted(kind: CompactionKind, input_tokens: u64) -> EventKind {
        EventKind::ContextCompacted(ContextCompacted {
            attempt: AT,
            context: String::new(),
            messages: CompactedMessages::default(),
            kind,
            text: String::new(),
            usage: Usage {
                input_tokens,
                ..Usage::default()
            },
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
            version: 0,
            replaced: 2,
            tokens_before: 20,
            tokens_after: 10,
        })
    }

    fn full() -> EventKind {
        EventKind::ContextFull(ContextFull {
            attempt: AT,
            cause: FullCause::NoSummary,
            tokens: 20,
            window: 10,
            failure: None,
            usage: Usage::default(),
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
        })
    }

    fn wanted() -> EventKind {
        EventKind::CompactionRequested(CompactionRequested {
            attempt: AT,
            keep_in_mind: String::new(),
        })
    }

    /// Sums of the tokens sent, and whether a person is asked in the end.
    fn folded(kinds: Vec<EventKind>) -> (u64, bool) {
        let mut compactions = Compactions::default();
        let mut tokens = 0;
        for (kind, seq) in kinds.into_iter().zip(1..) {
            let event = Event {
                at: 0,
                answers: 0,
                principal: None,
                kind,
            };
            let used = compactions.take(seq, &event).into_iter();
            tokens += used.map(|(_, usage)| usage.input_tokens).sum::<u64>();
        }
        (tokens, compactions.is_full(AT.run, AT.step))
    }

    #[test]
    fn an_answer_costs_what_it_used_up_and_a_lost_one_its_estimate() {
        let summary = || compacted(CompactionKind::Summary, 7);
        let paused = || {
            EventKind::RunPaused(RunPaused {
                run: 1,
                reason: String::new(),
            })
        };
        let skipped = EventKind::StepSkipped(StepSkipped {
            run: 1,
            step: AT.step,
            reason: String::new(),
            by_person: false,
            hook: String::new(),
        });
        for (kinds, want) in [
            (vec![asked(100, false), summary()], 7),
            (vec![asked(100, false), asked(90, true), summary()], 107),
            // It was not asked, because it did not fit.
            (vec![asked(100, false), asked(90, false), summary()], 7),
            (
                vec![asked(100, false), compacted(CompactionKind::History, 0)],
                100,
            ),
            (vec![asked(100, false), paused(), summary()], 107),
            (vec![asked(100, false), skipped], 100),
            (vec![paused(), summary(), paused()], 7),
        ] {
            let what = format!("{kinds:?}");
            assert_eq!(folded(kinds).0, want, "{what}");
        }
    }

    #[test]
    fn a_person_is_asked_unless_the_model_wanted_the_summary() {
        assert!(folded(vec![full()]).1);
        assert!(folded(vec![asked(1, false), full()]).1);
        assert!(!folded(vec![wanted(), asked(1, false), full()]).1);
        // What the model wanted once holds for one question.
        let first = vec![wanted(), asked(1, false), full()];
        let second = [first, vec![asked(1, false), full()]].concat();
        assert!(folded(second).1);
    }
}
