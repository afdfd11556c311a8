//! Does what the committed state leaves outstanding, and what is done already goes on.

use super::attempt::{attempt_start, news_for_executor};
use super::planning::question;
use super::{Message, Outstanding, Owner};
use crate::catalogue::Catalogue;
use crate::key::SessionKey;
use crate::observe::trace_of;
use crate::store::{Store, for_namespace, for_session};
use cairn_engine::decide::ToolList;
use cairn_engine::event::AttemptRef;
use cairn_engine::outstanding::Work;
use cairn_engine::session::{CallStatus, Session};
use cairn_proto::event::TextDelta;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{Acknowledgement, RunStepRequest, RunStepResponse};
use cairn_rpc::trace::is_passed_on;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::future::{AbortHandle, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::{Response, Status};

/// Work that is being done.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) stream: u64,
    abort: AbortHandle,
    /// To the executor; none for other work.
    to_executor: Option<UnboundedSender<RunStepRequest>>,
    /// What the executor has been told of its calls.
    pub(super) view: ExecutorView,
}

/// What an executor knows: the tools of its attempt, the changes of its conversation, and the calls of its
/// last reply; those before have ended.
#[derive(Debug, Default)]
pub(super) struct ExecutorView {
    /// The tools that its start offered.
    pub(super) catalogue: Arc<Catalogue>,
    /// The newest change of the conversation that it was sent.
    pub(super) newest_op: u64,
    /// Replies up to the one that the rest is about.
    pub(super) tool_turns: u32,
    /// Calls that it may send: index, how often intended.
    pub(super) permitted: HashSet<(u32, u32)>,
    /// Calls whose results it has: index.
    pub(super) results: HashSet<u32>,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Owner {
    /// It is being done, and has not just reported.
    pub(super) fn is_under_way(&self, work: &Work) -> bool {
        let has_reported = match work {
            Work::RunStep(name) => self.reported.contains_key(name),
            _ => false,
        };
        self.active.contains_key(work) && !has_reported
    }

    /// The tools that the start of each attempt under way offered.
    pub(super) fn offered(&self) -> BTreeMap<AttemptRef, Arc<ToolList>> {
        let active = self.active.iter();
        let offered = active.filter_map(|(work, active)| match work {
            Work::RunStep(attempt) => Some((*attempt, active.view.catalogue.facts.clone())),
            _ => None,
        });
        offered.collect()
    }

    /// Ends what the state no longer asks for.
    pub(super) fn drop_unwanted(&mut self, left: &Outstanding) {
        let reported = &self.reported;
        self.active.retain(|work, _| match work {
            // One that has just ended is told so once that is durable.
            Work::RunStep(name) => left.contains(work) || reported.contains_key(name),
            _ => left.contains(work),
        });
    }

    /// An owner that is stopping ends the work that the next owner can continue at once, piece by
    /// piece: each as soon as everything that arrived from it is decided, whatever arrives from others.
    pub(super) fn end_idle_if_stopping(&mut self) {
        if !self.tenure.is_stopping() {
            return;
        }
        let (session, tenure) = (&self.session, &self.tenure);
        self.active
            .retain(|work, _| has_open_intent(session, *work) || tenure.has_message_of(*work));
    }

    pub(super) fn perform(&mut self, left: &Outstanding) {
        for work in left.iter() {
            if self.active.contains_key(&work) || !self.may_begin(work) {
                continue;
            }
            let failures = self.failures.get(&work);
            let pause = failures.map(|failures| failures.pause());
            match work {
                Work::HandleCommand => {}
                Work::Plan { run, request } => self.ask_planner(work, run, pause, request),
                Work::RunStep(name) => self.start_attempt(work, name, pause),
                Work::Wake { at } => {
                    let wait = at.saturating_sub(self.deps.store.clock.now());
                    let wait = Duration::from_millis(wait);
                    let tick = async move {
                        tokio::time::sleep(wait).await;
                        Message::Tick
                    };
                    self.begin_work(work, stream::once(tick), None, ExecutorView::default());
                }
            }
        }
    }

    /// An owner that is stopping begins nothing but what it alone knows: that a call whose intent
    /// is durable has not been sent. For the next owner it would be in doubt.
    fn may_begin(&self, work: Work) -> bool {
        if !self.carries_out() {
            return !matches!(work, Work::RunStep(_));
        }
        !self.tenure.is_stopping() || has_open_intent(&self.session, work)
    }

    /// An owner for the sake of commands answers them, with the planner if they ask for a plan, and
    /// leaves steps to the next.
    pub(super) fn carries_out(&self) -> bool {
        self.deps.config.carries_out()
    }

    /// Asks for a plan, or for another one because of a request. May be repeated, at the price of
    /// another model call.
    fn ask_planner(&mut self, work: Work, run: u32, pause: Option<Duration>, request: Option<u64>) {
        let Some(state) = self.session.run(run) else {
            return;
        };
        let mut layers = self.prompt_layers();
        let catalogue = self.deps.catalogue();
        layers.extend(Some(catalogue.prompt.clone()).filter(|layer| !layer.is_empty()));
        let tools = catalogue.facts.keys().cloned().collect();
        let question = question(&self.key, state, layers, tools, request);
        let mut question = for_namespace(&self.key.namespace, question);
        let state = Some(state).filter(|_| is_passed_on());
        if let Some(trace) = state.and_then(|run| trace_of(&self.key, run)) {
            trace.set_on(&mut question);
        }
        let mut planner = self.deps.planner.clone();
        let ask = async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            let answer = planner.make_plan(question).await;
            let outcome = Box::new(answer.map(Response::into_inner));
            Message::Planned { work, outcome }
        };
        self.begin_work(work, stream::once(ask), None, ExecutorView::default());
    }

    fn start_attempt(&mut self, work: Work, attempt: AttemptRef, pause: Option<Duration>) {
        let catalogue = self.deps.catalogue();
        let not_after = self.tenure.not_after();
        let Some((start, view)) =
            attempt_start(&self.session, &self.key, attempt, &catalogue, not_after)
        else {
            return;
        };
        // A channel for a few messages: one that makes room for many at once costs a tool step more
        // than its messages do.
        let (to_executor, from_owner) = unbounded();
        let first = RunStepRequest {
            message: Some(ToExecutor::Start(start)),
        };
        // The receiver is right here.
        let _ = to_executor.unbounded_send(first);
        let mut requests = for_session(&self.key, from_owner);
        let run = self.session.run(attempt.run).filter(|_| is_passed_on());
        if let Some(trace) = run.and_then(|run| trace_of(&self.key, run)) {
            trace.set_on(&mut requests);
        }
        let mut executor = self.deps.executor.clone();
        let (store, key) = (self.deps.store.clone(), self.key.clone());
        let stream = self.next_stream;
        let answers = to_executor.clone();
        let reports = async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            match executor.run_step(requests).await {
                Ok(answer) => {
                    let reports = answer.into_inner();
                    let reports = with_catalogue(reports, answers, catalogue);
                    messages_of(store, key, attempt, stream, reports).left_stream()
                }
                Err(status) => {
                    let broken = Message::Broken {
                        attempt,
                        stream,
                        status: Some(status),
                    };
                    stream::once(async { broken }).right_stream()
                }
            }
        };
        self.begin_work(work, reports.flatten_stream(), Some(to_executor), view);
    }

    fn begin_work(
        &mut self,
        work: Work,
        messages: impl stream::Stream<Item = Message> + Send + 'static,
        to_executor: Option<UnboundedSender<RunStepRequest>>,
        view: ExecutorView,
    ) {
        let (messages, abort) = stream::abortable(messages);
        let stream = self.next_stream;
        self.next_stream += 1;
        self.tenure.listen(messages);
        let active = Active {
            stream,
            abort,
            to_executor,
            view,
        };
        self.active.insert(work, active);
    }

    /// What every prompt of this session carries after the service's own.
    fn prompt_layers(&self) -> Vec<String> {
        let memory = self.session.memory.snapshot().to_owned();
        let layers = [self.deps.config.environment.clone(), memory];
        layers
            .into_iter()
            .filter(|layer| !layer.is_empty())
            .collect()
    }

    /// Attempts that have reported, by the number of their last report; and those whose conversation has
    /// changed without one.
    fn attempts_with_news(&mut self) -> BTreeMap<AttemptRef, u64> {
        let mut attempts: BTreeMap<_, _> = std::mem::take(&mut self.reported).into_iter().collect();
        for (work, active) in &self.active {
            let Work::RunStep(name) = work else {
                continue;
            };
            let running = self.session.attempt(*name);
            if running.is_some_and(|running| running.newest_op() > active.view.newest_op) {
                attempts.entry(*name).or_insert(0);
            }
        }
        attempts
    }

    /// Acknowledges to executors what has become durable of their reports, and sends them the changes of
    /// their conversations.
    pub(super) fn acknowledge(&mut self, left: &Outstanding) {
        let not_after = self.tenure.not_after();
        for (attempt, through_number) in self.attempts_with_news() {
            let work = Work::RunStep(attempt);
            let is_wanted = left.contains(&work);
            // An acknowledgement would let it ask the model again. Without one the attempt comes to
            // rest, and its stream ends when everything that it reported is durable.
            if is_wanted && self.tenure.is_stopping() && !has_open_intent(&self.session, work) {
                continue;
            }
            let Some(active) = self.active.get_mut(&work) else {
                continue;
            };
            let mut ack = Acknowledgement {
                through_number,
                ended: !is_wanted,
                ..Acknowledgement::default()
            };
            if is_wanted {
                news_for_executor(
                    &self.session,
                    &self.key,
                    attempt,
                    not_after,
                    &mut active.view,
                    &mut ack,
                );
            }
            let message = Some(ToExecutor::Acknowledgement(ack));
            // An executor that is gone shows as a broken stream.
            if let Some(to_executor) = &active.to_executor {
                let _ = to_executor.unbounded_send(RunStepRequest { message });
            }
            if !is_wanted {
                self.active.remove(&work);
            }
        }
    }
}

/// The work is an attempt with a call that is durable as intended, and to be sent or under way.
pub(super) fn has_open_intent(session: &Session, work: Work) -> bool {
    let Work::RunStep(name) = work else {
        return false;
    };
    let attempt = session.attempt(name).into_iter();
    let mut calls = attempt.flat_map(|attempt| &attempt.calls);
    calls.any(|call| matches!(call.status, CallStatus::Intended { .. }))
}

/// Parts of a reply that wait to be published; more than these are lost.
const MOST_PARTS: usize = 8;

/// Publishes what it is sent, one after the other, until nobody sends any more.
fn publish(store: &Store, key: &SessionKey) -> mpsc::Sender<TextDelta> {
    let (sender, mut deltas) = mpsc::channel(MOST_PARTS);
    let (store, key) = (store.clone(), key.clone());
    tokio::spawn(async move {
        while let Some(delta) = deltas.recv().await {
            store.publish(&key, delta).await;
        }
    });
    sender
}

/// Sends the catalogue to an executor that lacks it; the rest is what it sends.
fn with_catalogue(
    answers: tonic::Streaming<RunStepResponse>,
    to_executor: UnboundedSender<RunStepRequest>,
    catalogue: Arc<Catalogue>,
) -> impl stream::Stream<Item = Result<RunStepResponse, Status>> + Send {
    answers.filter(move |answer| {
        let lacks = answer.as_ref().is_ok_and(|report| report.lacks_catalogue);
        if lacks {
            let message = Some(ToExecutor::Catalogue(catalogue.offered.clone()));
            // An executor that is gone shows as a broken stream.
            let _ = to_executor.unbounded_send(RunStepRequest { message });
        }
        std::future::ready(!lacks)
    })
}

/// What an executor sends, for the owner. Parts of replies are none of its business: they are
/// published beside, and reports wait for none of them.
fn messages_of(
    store: Store,
    key: SessionKey,
    attempt: AttemptRef,
    stream: u64,
    answers: impl stream::Stream<Item = Result<RunStepResponse, Status>> + Send,
) -> impl stream::Stream<Item = Message> + Send {
    let broken = move |status| Message::Broken {
        attempt,
        stream,
        status,
    };
    let mut publisher = None;
    let messages = answers.filter_map(move |answer| {
        std::future::ready(match answer {
            Ok(mut report) => match report.delta.take() {
                None => Some(Message::Report {
                    attempt,
                    stream,
                    report: Box::new(report),
                }),
                Some(mut delta) => {
                    // An executor speaks for its own attempt only.
                    delta.attempt = Some(attempt.into());
                    let publisher = publisher.get_or_insert_with(|| publish(&store, &key));
                    // Whoever watches sees that one is missing, and then the whole reply.
                    let _ = publisher.try_send(delta);
                    None
                }
            },
            Err(status) => Some(broken(Some(status))),
        })
    });
    messages.chain(stream::once(async move { broken(None) }))
}
