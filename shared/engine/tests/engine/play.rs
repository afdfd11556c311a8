//! A driver that plays everything that can happen to a session: planner, executors, clients,
//! crashes, time. What an operation refers to is picked from what there is.

mod end;
mod revise;

use crate::world::{
    World, chain, complete, finished, graph, long, look, model_step, report_reply, send, step_call,
    tool_call, tool_step,
};
use cairn_engine::command::{self, Command, LimitOverrides, OnFailure, Settlement, StartRun};
use cairn_engine::decide::{Answer, Input};
use cairn_engine::event::Budget;
use cairn_engine::event::{self, AttemptRef, CallRef, Effect, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{ToolCall, Usage};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::plan::{Order, PlanDraft, StepDraft};
use cairn_engine::pool::Missing;
use cairn_engine::session::{Attempt, CallStatus, PerBudget, Session};
use proptest::prelude::*;
use serde_json::json;

pub(crate) use end::{People, play_to_the_end};
pub(crate) use revise::{Change, changes};

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Start(PlanSeed),
    Plan(PlanSeed),
    PlanningFails,
    Reply { attempt: u8, calls: Vec<u8> },
    Result { attempt: u8, call: u8, how: u8 },
    Fail { attempt: u8 },
    Lose { attempt: u8 },
    TakeOver { holder_dead: bool },
    Pass { seconds: u8 },
    Cancel,
    Decide { question: u8, how: u8 },
    Remember { key: u8, clear: bool },
    Late { step: u8 },
    Short { attempt: u8, is_none: bool },
    Found { attempt: u8 },
    Placed { attempt: u8 },
    Change(Change),
}

/// Up to six steps; the bits of the second number are the earlier steps that a step depends on.
#[derive(Debug, Clone)]
pub(crate) struct PlanSeed {
    pub(crate) is_chain: bool,
    pub(crate) steps: Vec<(u8, u8)>,
    pub(crate) max_turns: u32,
    pub(crate) by_planner: bool,
}

pub(crate) fn plan_seeds() -> impl Strategy<Value = PlanSeed> {
    let steps = prop::collection::vec((any::<u8>(), any::<u8>()), 1..6);
    (
        any::<bool>(),
        steps,
        prop_oneof![Just(0), 1..12_u32],
        prop::bool::weighted(0.2),
    )
        .prop_map(|(is_chain, steps, max_turns, by_planner)| PlanSeed {
            is_chain,
            steps,
            max_turns,
            by_planner,
        })
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let pick = any::<u8>;
    let op = prop_oneof![
        2 => plan_seeds().prop_map(Op::Start),
        4 => plan_seeds().prop_map(Op::Plan),
        1 => Just(Op::PlanningFails),
        40 => (pick(), prop::collection::vec(pick(), 0..4))
            .prop_map(|(attempt, calls)| Op::Reply { attempt, calls }),
        40 => (pick(), pick(), pick())
            .prop_map(|(attempt, call, how)| Op::Result { attempt, call, how }),
        1 => pick().prop_map(|attempt| Op::Fail { attempt }),
        4 => pick().prop_map(|attempt| Op::Lose { attempt }),
        4 => any::<bool>().prop_map(|holder_dead| Op::TakeOver { holder_dead }),
        8 => pick().prop_map(|seconds| Op::Pass { seconds }),
        1 => Just(Op::Cancel),
        16 => (pick(), pick()).prop_map(|(question, how)| Op::Decide { question, how }),
        4 => (pick(), any::<bool>()).prop_map(|(key, clear)| Op::Remember { key, clear }),
        2 => pick().prop_map(|step| Op::Late { step }),
        4 => (pick(), any::<bool>())
            .prop_map(|(attempt, is_none)| Op::Short { attempt, is_none }),
        6 => pick().prop_map(|attempt| Op::Found { attempt }),
        4 => pick().prop_map(|attempt| Op::Placed { attempt }),
        16 => changes(),
    ];
    let start = plan_seeds().prop_map(Op::Start);
    let rest = prop::collection::vec(op, 1..100);
    (start, rest).prop_map(|(start, rest)| std::iter::once(start).chain(rest).collect())
}

impl PlanSeed {
    pub(crate) fn draft(&self) -> PlanDraft {
        let step = |position: usize, (kind, bits): (u8, u8)| -> StepDraft {
            let title = format!("step {}", position + 1);
            let mut step = match kind % 32 {
                0..6 => tool_step(&title, "look"),
                6..10 => tool_step(&title, "send"),
                10 => tool_step(&title, "exec"),
                11 => tool_step(&title, "pay"),
                12 => tool_step(&title, "no-such-tool"),
                _ => model_step(&title),
            };
            if !self.is_chain {
                let earlier = (0..position).filter(|at| bits >> at & 1 == 1);
                step.depends_on = earlier.map(|at| (at + 1).to_string()).collect();
            }
            step
        };
        let steps = self.steps.iter().enumerate();
        let steps = steps.map(|(at, &seed)| step(at, seed)).collect();
        let draft = if self.is_chain {
            chain(steps)
        } else {
            graph(steps)
        };
        assert_eq!(draft.order == Order::Chain, self.is_chain);
        draft
    }
}

/// A call that a model might make.
pub(crate) fn some_call(seed: u8) -> ToolCall {
    match seed % 25 {
        0 | 1 => look(),
        2 => tool_call("put", &json!({"path": "a", "content": "b"})),
        3 | 4 => send(),
        5 => tool_call("exec", &json!({"command": "make"})),
        6 => tool_call("no-such-tool", &json!({})),
        7 | 8 => complete("it is done"),
        9 => step_call(&json!({"complete": true})),
        10 => step_call(&json!({"plan": ["a part", "another part"]})),
        11 => step_call(&json!({"plan": ["a part"], "focus": "a part"})),
        12 => step_call(&json!({"focus": "another part"})),
        13 => step_call(&json!({"complete": true, "summary": "good", "focus": "another part"})),
        14 => tool_call("scratchpad", &json!({"text": "a note"})),
        15 => tool_call("session_memory_set", &json!({"key": "k", "value": "v"})),
        16 => tool_call("read_progress", &json!({})),
        17 => tool_call("pay", &json!({"sum": seed})),
        18 => tool_call("peek", &json!({})),
        19 => tool_call(
            "ask_person",
            &json!({"question": "Which?", "choices": ["a"]}),
        ),
        20 => tool_call("ask_person", &json!({"question": " "})),
        21 => step_call(&json!({"drop": ["another part"], "plan": ["a third part"]})),
        22 => tool_call("read_result", &json!({"handle": "result-1"})),
        23 => tool_call("read_result", &json!({"handle": "result-2", "search": "a"})),
        _ => ToolCall {
            id: String::new(),
            name: "step".to_owned(),
            arguments: "{not json".to_owned(),
        },
    }
}

pub(crate) fn some_settlement(seed: u8) -> Settlement {
    let reason = "because".to_owned();
    match seed % 10 {
        0 | 1 => Settlement::Done {
            output: "a person saw it".to_owned(),
        },
        2 => Settlement::Retry,
        3 => Settlement::Skip { reason },
        4 => Settlement::Fail { reason },
        5 | 6 => Settlement::Approve,
        7 => Settlement::Deny { reason },
        _ => Settlement::Answer {
            text: "the first".to_owned(),
        },
    }
}

impl World {
    /// Does what the operation says, if it makes sense now. The events are in the journal then.
    pub(crate) fn play(&mut self, op: &Op) {
        match op {
            Op::Start(seed) => self.play_start(seed),
            Op::Plan(seed) => self.planned(Ok(seed.draft())),
            Op::PlanningFails => {
                self.planned(Err(Failure::new(
                    FailureKind::PlanParse,
                    "BadPlan",
                    "no plan",
                )));
            }
            Op::Reply { attempt, calls } => {
                if !self.play_reply(*attempt, calls) {
                    self.play_result(*attempt, 0, calls.len() as u8 + 2);
                }
            }
            Op::Result { attempt, call, how } => {
                if !self.play_result(*attempt, *call, *how) && !self.play_owner_answer(*how) {
                    self.play_reply(*attempt, &[*call, *how]);
                }
            }
            Op::Fail { attempt } => {
                if let Some(attempt) = self.pick_attempt(*attempt) {
                    self.fail(
                        attempt.step,
                        Failure::new(FailureKind::Llm, "Refused", "no"),
                    );
                }
            }
            Op::Lose { attempt } => {
                if let Some(attempt) = self.pick_attempt(*attempt) {
                    self.decide(Input::AttemptLost { attempt });
                }
            }
            Op::TakeOver { holder_dead } => {
                self.session = self.folded();
                let holder_dead = *holder_dead;
                self.decide(Input::TakenOver { holder_dead });
            }
            Op::Pass { seconds } => {
                self.now += u64::from(*seconds) * 500;
                self.decide(Input::Tick);
            }
            Op::Cancel => {
                let run = self.session.runs.len() as u32;
                let reason = "changed my mind".to_owned();
                self.command(Command::CancelRun(command::CancelRun { run, reason }));
            }
            Op::Decide { question, how } => self.play_decide(*question, *how),
            Op::Remember { key, clear } => self.play_remember(*key, *clear),
            Op::Late { step } => self.play_late(*step),
            Op::Short { .. } | Op::Found { .. } | Op::Placed { .. } => self.play_pool(op),
            Op::Change(change) => self.play_change(change),
        }
    }

    /// What is heard of the pool: each of it twice, as after a takeover.
    fn play_pool(&mut self, op: &Op) {
        let (Op::Short { attempt, .. } | Op::Found { attempt } | Op::Placed { attempt }) = op
        else {
            return;
        };
        let Some(attempt) = self.pick_attempt(*attempt) else {
            return;
        };
        let input = match op {
            Op::Short { is_none, .. } => lacks(attempt, *is_none),
            Op::Found { .. } => Input::Found {
                attempts: vec![attempt],
            },
            _ => Input::Placed {
                attempt,
                resources: vec!["executor".to_owned()],
                waited_ms: 5,
                has_begun: false,
            },
        };
        self.decide(input.clone());
        let again = self.decide(input);
        let is_placed = matches!(op, Op::Placed { .. });
        assert!(again.is_empty() || is_placed, "{again:?}");
    }

    fn play_remember(&mut self, key: u8, clear: bool) {
        self.foreign(if clear {
            EventKind::MemoryCleared(event::MemoryCleared {})
        } else {
            EventKind::MemorySet(event::MemorySet {
                key: format!("key-{}", key % 3),
                value: "from a client".to_owned(),
                writer: None,
                metadata: Default::default(),
            })
        });
        // Every other time it came with a report that is not acknowledged.
        if key.is_multiple_of(2) {
            let attempts = self.attempts();
            self.decide(Input::MemoryChanged { attempts });
        }
    }

    fn play_start(&mut self, seed: &PlanSeed) {
        self.command(Command::StartRun(StartRun {
            goal: "the goal".to_owned(),
            plan: (!seed.by_planner).then(|| seed.draft()),
            limits: LimitOverrides {
                max_tool_turns: 8,
                max_parallel_steps: seed.max_turns % 4,
                max_own_revisions: 2,
                on_failure: match seed.steps.len() % 3 {
                    0 => Some(OnFailure::GoOn),
                    1 => Some(OnFailure::Revise),
                    _ => None,
                },
                review_plan: seed.max_turns % 3 == 1,
                budgets: PerBudget::from([
                    (Budget::Turns, seed.max_turns.into()),
                    (Budget::Tokens, u64::from(seed.max_turns / 3 * 110)),
                    (Budget::Time, u64::from(seed.max_turns % 5 * 40_000)),
                    (Budget::Calls, u64::from(seed.max_turns % 4 * 3)),
                ]),
                at_limit: None,
            },
            model: String::new(),
            trace_parent: String::new(),
            agent: String::new(),
            answers_questions: false,
            external_id: String::new(),
            note: String::new(),
        }));
    }

    pub(crate) fn planned(&mut self, outcome: Result<PlanDraft, Failure>) {
        self.decide(Input::Planned {
            request: None,
            run: self.session.runs.len() as u32,
            outcome,
            usage: Usage {
                input_tokens: 50,
                unpriced_tokens: 50,
                ..Usage::default()
            },
            duration_ms: 900,
        });
    }

    pub(crate) fn attempts(&self) -> Vec<AttemptRef> {
        let active = self.session.active_run();
        let attempts = active.into_iter().flat_map(|run| run.running_attempts());
        attempts.map(|(name, ..)| name).collect()
    }

    pub(super) fn pick_attempt(&self, seed: u8) -> Option<AttemptRef> {
        picked(&self.attempts(), seed).copied()
    }

    /// Whether a model can reply: it is asked again only when every call of its last reply has a
    /// result.
    fn play_reply(&mut self, seed: u8, calls: &[u8]) -> bool {
        let is_ready = |name: &AttemptRef| {
            let is_tool_step = self.session.step(*name).unwrap().plan.tool.is_some();
            let is_gated = self.session.attempt(*name).unwrap().is_gated();
            !is_tool_step && !is_gated && open_calls(&self.session, *name).is_empty()
        };
        let ready: Vec<AttemptRef> = self.attempts().into_iter().filter(is_ready).collect();
        let Some(&name) = picked(&ready, seed) else {
            return false;
        };
        let running = self.session.attempt(name).unwrap();
        // The request may have been built before the newest changes came.
        let waiting = running.waiting_ops.len() as u64;
        let ops_through = running.newest_op() - u64::from(seed) % (waiting + 1);
        let seen = (running.tool_turns, ops_through);
        let calls: Vec<_> = calls.iter().map(|&seed| some_call(seed)).collect();
        self.decide(report_reply(name, seen, "Some thoughts.", &calls));
        true
    }

    /// Whether there is a call that an executor may have sent.
    fn play_result(&mut self, seed: u8, call: u8, how: u8) -> bool {
        let sendable = |name: AttemptRef| sendable_calls(&self.session, name);
        let busy: Vec<_> = self.attempts().into_iter().map(sendable).collect();
        let busy: Vec<_> = busy.into_iter().filter(|calls| !calls.is_empty()).collect();
        let Some(&call) = picked(&busy, seed).and_then(|calls| picked(calls, call)) else {
            return false;
        };
        let result = match how % 16 {
            0 => finished(call, "it went wrong", "ExecutionFailed"),
            1 => finished(call, "too late", "NotSent"),
            2..5 => long(call, 100_000),
            _ => finished(call, "an output", ""),
        };
        self.report(call.attempt.step, vec![result]);
        true
    }

    /// Whether there is a call that the owner answers.
    fn play_owner_answer(&mut self, seed: u8) -> bool {
        let work = self.outstanding().into_iter();
        let calls: Vec<CallRef> = work
            .filter_map(|work| match work {
                Work::Answer(call) => Some(call),
                _ => None,
            })
            .collect();
        let Some(&call) = picked(&calls, seed) else {
            return false;
        };
        let answer = match seed % 4 {
            0 => Answer::failed(Answer::TIMEOUT, "it took too long"),
            _ => Answer::found("a piece".to_owned()),
        };
        self.decide(Input::Answered { call, answer });
        true
    }

    fn play_decide(&mut self, question: u8, how: u8) {
        let open = pending(&self.session);
        let id = match picked(&open, question) {
            Some(open) => open.id().to_string(),
            None if question.is_multiple_of(8) => "call-1.1.1.0.0".to_owned(),
            None => return,
        };
        self.answer(&id, some_settlement(how));
    }

    /// Something arrives from an attempt that has ended.
    fn play_late(&mut self, step: u8) {
        let run = self.session.runs.len() as u32;
        let attempt = AttemptRef {
            run,
            step: u32::from(step % 8).into(),
            attempt: 7,
        };
        let before = self.session.clone();
        let events = self.decide(report_reply(attempt, (0, 0), "late", &[]));
        assert!(events.is_empty());
        assert!(self.decide(Input::AttemptLost { attempt }).is_empty());
        assert!(self.decide(lacks(attempt, true)).is_empty());
        let attempts = vec![attempt];
        assert!(self.decide(Input::Found { attempts }).is_empty());
        assert_eq!(self.session, before);
    }
}

/// The pool lacks a capability for an attempt.
pub(crate) fn lacks(attempt: AttemptRef, is_none: bool) -> Input {
    Input::Short {
        attempt,
        missing: vec![Missing {
            capability: "web_search".to_owned(),
            total: u32::from(!is_none),
            ..Missing::default()
        }],
        is_none,
    }
}

fn picked<T>(all: &[T], seed: u8) -> Option<&T> {
    all.get(usize::from(seed) % all.len().max(1))
}

/// Calls of the attempt without a result.
pub(crate) fn open_calls(session: &Session, name: AttemptRef) -> Vec<CallRef> {
    let calls = session
        .attempt(name)
        .into_iter()
        .flat_map(|it| it.last_calls(name));
    let open = calls.filter(|(_, call)| !call.is_finished());
    open.map(|(name, _)| name).collect()
}

/// Calls that an executor may have sent: pure and idempotent ones at once, the others once they
/// are intended, none that is in doubt, waits for a person, a hook or a preview, or is the owner's to answer.
pub(crate) fn sendable_calls(session: &Session, name: AttemptRef) -> Vec<CallRef> {
    let attempt: Option<&Attempt> = session.attempt(name);
    // No executor does anything before hooks have answered.
    let attempt = attempt.filter(|attempt| !attempt.is_gated());
    let calls = attempt
        .into_iter()
        .flat_map(|attempt| attempt.last_calls(name));
    let sendable = calls.filter(|(_, call)| match call.status {
        _ if call.is_unready() => false,
        CallStatus::Requested => matches!(call.effect, Effect::Pure | Effect::Idempotent),
        CallStatus::Intended { .. } => true,
        CallStatus::InDoubt { .. } | CallStatus::Asking { .. } | CallStatus::Finished { .. } => {
            false
        }
    });
    sendable.map(|(name, _)| name).collect()
}
