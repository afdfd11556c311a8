//! Does what the committed state leaves outstanding, and what is done already continues.

use super::executor_view::{ExecutorView, news_for_executor};
use super::grants::Given;
use super::planner::{Asked, capabilities, capability_words, question};
use super::stream::Offer;
use super::{Message, Outstanding, Owner};
use crate::dispatch::{Catalogue, PartOf};
use crate::observe::trace_of;
use crate::store::for_namespace;
use cairn_engine::decide::ToolList;
use cairn_engine::event::AttemptRef;
use cairn_engine::hooks::Point;
use cairn_engine::outstanding::Work;
use cairn_engine::pool::AgentContext;
use cairn_engine::prompt::memory::snapshot;
use cairn_engine::session::{Attempt, CallStatus, Run, Session};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{Acknowledgement, RunStepRequest};
use cairn_rpc::trace::is_passed_on;
use futures::channel::mpsc::UnboundedSender;
use futures::future::AbortHandle;
use futures::stream;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::Response;

/// Work that is being done.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) stream: u64,
    abort: AbortHandle,
    /// The executor of an attempt; none for other work, and while the attempt waits for a slot.
    pub(super) executor: Option<Executor>,
}

/// The executor that carries out an attempt.
#[derive(Debug)]
pub(super) struct Executor {
    /// Its name among all executors.
    pub(super) id: Arc<str>,
    /// How much it can read.
    pub(super) level: u32,
    /// The resources that carry out the attempt, by their ids in the pool, the executor first.
    pub(super) resources: Box<[String]>,
    /// What an operator gave to it and to the agent.
    pub(super) given: Given,
    /// They have lacked for long what the attempt needs: it is to come to rest.
    pub(super) is_unserved: bool,
    /// Bytes of the start that it was sent.
    pub(super) start_bytes: usize,
    pub(super) to_executor: UnboundedSender<RunStepRequest>,
    /// What it has been sent.
    pub(super) view: ExecutorView,
    /// The tools on offer, for its stream.
    pub(super) offer: Offer,
}

impl Executor {
    /// The attempt may call other tools from now on. The executor is sent their name with what comes next.
    pub(super) fn give(&mut self, given: Given, catalogue: Arc<Catalogue>) {
        self.given = given;
        if self.view.catalogue.name != catalogue.name {
            self.offer.set(catalogue.clone());
            self.view.is_regranted = true;
        }
        // Whether they are offered or not, calls of them are judged by what is known now.
        self.view.catalogue = catalogue;
    }

    /// The session needs more than it can read, or the attempt needs what its resources lack.
    fn is_to_rest(&self, needs: u32) -> bool {
        self.level < needs || self.is_unserved
    }
}

impl Active {
    /// The attempt continues with another conversation or task than its executor knows. What the executor has
    /// begun ends before another one continues.
    fn is_superseded(&self, session: &Session, name: AttemptRef) -> bool {
        let executor = self.executor.as_ref();
        let is_old = executor.is_some_and(|executor| executor.view.is_old(session, name));
        is_old && !has_open_intent(session, Work::RunStep(name))
    }

    /// Once the calls of the attempt have ended and what they brought is decided, another executor continues.
    fn is_to_move(&self, needs: u32) -> bool {
        let executor = self.executor.as_ref();
        executor.is_some_and(|executor| executor.is_to_rest(needs))
    }
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
        let offered = active.filter_map(|(work, active)| match (work, &active.executor) {
            (Work::RunStep(attempt), Some(executor)) => {
                Some((*attempt, executor.view.catalogue.facts.clone()))
            }
            _ => None,
        });
        offered.collect()
    }

    /// Ends what the state no longer asks for.
    pub(super) fn drop_done(&mut self, outstanding: &Outstanding) {
        let needs = self.needs();
        let (reported, session, inbox) = (&self.reported, &self.session, &self.inbox);
        let is_idle = |work: Work| {
            let is_busy = has_open_intent(session, work) || inbox.has_message_of(work);
            outstanding.contains(&work) && !is_busy
        };
        self.active.retain(|work, active| match work {
            Work::RunStep(name) if active.is_superseded(session, *name) => false,
            Work::RunStep(_) if active.is_to_move(needs) && is_idle(*work) => false,
            // One that has just ended is told so once that is durable.
            Work::RunStep(name) => outstanding.contains(work) || reported.contains_key(name),
            _ => outstanding.contains(work),
        });
        self.slots.retain(|work, _| outstanding.contains(work));
        // Another executor knows nothing of these reports.
        let active = &self.active;
        self.reported
            .retain(|name, _| active.contains_key(&Work::RunStep(*name)));
        self.drop_proceeding(outstanding);
        // An attempt that waits for hooks gets another slot once they have answered.
        let slots = std::mem::take(&mut self.slots).into_iter();
        self.slots = slots
            .filter(|(work, _)| match work {
                Work::RunStep(name) => !self.waits_for_hooks(*name),
                _ => true,
            })
            .collect();
    }

    /// An owner that is stopping ends the work that the next owner can continue at once, piece by
    /// piece: each as soon as everything that arrived from it is decided, whatever arrives from others.
    pub(super) fn end_idle_if_stopping(&mut self) {
        if !self.inbox.is_stopping() {
            return;
        }
        let (session, inbox) = (&self.session, &self.inbox);
        self.active.retain(|work, _| {
            has_open_intent(session, *work) || inbox.has_message_of(*work) || is_of_end(*work)
        });
    }

    pub(super) fn perform(&mut self, outstanding: &Outstanding) {
        self.perform_all(outstanding);
        // An attempt that has found what it lacked is in the queue by now.
        self.follow_lacks();
        self.follow_pool();
    }

    fn perform_all(&mut self, outstanding: &Outstanding) {
        for work in outstanding.iter() {
            if self.active.contains_key(&work) || !self.may_begin(work) {
                continue;
            }
            let failures = self.failures.get(&work);
            let pause = failures.map(|failures| failures.pause());
            match work {
                Work::HandleCommand => {}
                Work::Plan { run, request } => self.ask_planner(work, run, pause, request),
                Work::RunStep(name) => self.start_attempt(work, name, pause),
                Work::Answer(call) => self.find_answer(work, call),
                Work::Preview(call) => self.find_preview(work, call),
                Work::AskHooks(gate) => self.ask_hooks(work, gate),
                Work::Wake { at } => {
                    let wait = at.saturating_sub(self.deps.store.clock.now());
                    let wait = Duration::from_millis(wait);
                    let tick = async move {
                        tokio::time::sleep(wait).await;
                        Message::Tick
                    };
                    self.begin_work(work, stream::once(tick), None);
                }
            }
        }
    }

    /// The lowest level of a process that can read what is sent of this session.
    pub(super) fn needs(&self) -> u32 {
        self.session.needs.max(self.deps.config.least_needs())
    }

    /// An owner that is stopping begins nothing but what it alone knows: that a call whose intent
    /// is durable has not been sent. For the next owner it would be in doubt. Hooks are still asked about the end of a
    /// run: after a command, the next owner may never come. An attempt that waits for the
    /// owner's answers, or for hooks, takes no slot before.
    pub(super) fn may_begin(&self, work: Work) -> bool {
        if !self.runs_steps() {
            return matches!(
                work,
                Work::HandleCommand | Work::Plan { .. } | Work::Wake { .. }
            );
        }
        if let Work::RunStep(name) = work {
            let attempt = self.session.attempt(name);
            if attempt.is_some_and(Attempt::waits_for_owner) || self.waits_for_hooks(name) {
                return false;
            }
        }
        !self.inbox.is_stopping() || has_open_intent(&self.session, work) || is_of_end(work)
    }

    /// An owner for the sake of commands answers them, with the planner if they ask for a plan, and
    /// leaves steps to the next.
    pub(super) fn runs_steps(&self) -> bool {
        self.deps.config.runs_steps()
    }

    /// Asks for a plan, or for another one because of a request. May be repeated, at the price of
    /// another model call.
    fn ask_planner(&mut self, work: Work, run: u32, pause: Option<Duration>, request: Option<u64>) {
        let Some(state) = self.session.run(run) else {
            return;
        };
        let mut layers = self.prompt_layers(run);
        let (dispatch, namespace) = (&self.deps.dispatch, &self.key.namespace);
        let (catalogue, grants) = (dispatch.catalogue(), dispatch.grants(namespace));
        let part = catalogue.of_plans(PartOf::run(&self.session, run).granted(&grants));
        layers.extend(Some(part.prompt()).filter(|layer| !layer.is_empty()));
        let (capabilities, pool) = self.pool_layer(state, &catalogue.facts, &part.facts);
        layers.extend(pool);
        let tools = part.facts.keys().cloned().collect();
        let asked = Asked {
            request,
            tools,
            capabilities,
        };
        let question = question(&self.key, state, layers, asked);
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
        self.begin_work(work, stream::once(ask), None);
    }

    /// Starts an attempt in a free slot. Without one the attempt waits, and starts from the state of
    /// the moment at which a slot is there.
    fn start_attempt(&mut self, work: Work, attempt: AttemptRef, pause: Option<Duration>) {
        let needs = self.needs();
        let slot = self.slots.remove(&work);
        // It may have come to need more while it waited.
        if let Some(slot) = slot.filter(|slot| slot.level() >= needs) {
            return self.start_in(slot, work, attempt);
        }
        let need = Arc::new(self.session.need_of(attempt));
        if pause.is_none()
            && let Some(slot) = self.deps.dispatch.try_slot(&need, needs)
        {
            return self.take_slot(slot, work, attempt);
        }
        self.wait_for_slot(work, attempt, need, pause);
    }

    pub(super) fn begin_work(
        &mut self,
        work: Work,
        messages: impl stream::Stream<Item = Message> + Send + 'static,
        executor: Option<Executor>,
    ) {
        let (messages, abort) = stream::abortable(messages);
        let stream = self.next_stream;
        self.next_stream += 1;
        self.inbox.listen(messages);
        let active = Active {
            stream,
            abort,
            executor,
        };
        self.active.insert(work, active);
    }

    /// The capabilities that steps of a run may name, and the layer of the planner's prompt about them and the pool.
    /// There is no layer while no resource is known. Of all tools, the run has those on offer.
    fn pool_layer(
        &self,
        run: &Run,
        all: &ToolList,
        offered: &ToolList,
    ) -> (Vec<String>, Option<String>) {
        let namespace = &self.key.namespace;
        let view = self
            .deps
            .dispatch
            .pool_facts(namespace, BTreeMap::new())
            .view;
        if view.resources.is_empty() {
            return (Vec::new(), None);
        }
        let (now, note) = (self.deps.store.clock.now(), Some(run.note.clone()));
        let mut layer = AgentContext::of(&view, now, None, note, Vec::new()).text();
        let names = capabilities(&view, all, offered);
        if !names.is_empty() {
            layer.push_str("\n\n");
            layer.push_str(&capability_words(&view, &names));
        }
        (names, Some(layer))
    }

    /// What the planner's prompt for a run carries after the service's own.
    fn prompt_layers(&self, run: u32) -> Vec<String> {
        let memory = snapshot(self.session.memory.iter());
        let agent = self.session.agent_of_run(run);
        let prompt = agent.map(|agent| agent.definition.prompt.clone());
        let environment = self.deps.config.environment.clone();
        let layers = [prompt.unwrap_or_default(), environment, memory];
        layers
            .into_iter()
            .filter(|layer| !layer.is_empty())
            .collect()
    }

    /// Attempts that have reported, by the number of their last report; and those whose conversation has
    /// changed, or whose calls the owner has answered or permitted, without one. Those that wait for hooks get
    /// nothing, and their last reports stay unacknowledged: an acknowledgement would let them continue.
    fn attempts_with_news(&mut self, outstanding: &Outstanding) -> BTreeMap<AttemptRef, u64> {
        let reported = std::mem::take(&mut self.reported).into_iter();
        let (withheld, mut attempts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            reported.partition(|(name, _)| self.is_withheld(*name, outstanding));
        self.reported = withheld;
        for (work, active) in &self.active {
            let Work::RunStep(name) = work else {
                continue;
            };
            if self.is_withheld(*name, outstanding) {
                continue;
            }
            let running = self.session.attempt(*name);
            let (Some(running), Some(executor)) = (running, &active.executor) else {
                continue;
            };
            let view = &executor.view;
            let lacks_some = view.lacks_result(running) || view.lacks_permit(running);
            if running.newest_op() > view.newest_op || lacks_some || view.is_regranted {
                attempts.entry(*name).or_insert(0);
            }
        }
        attempts
    }

    /// Acknowledges to executors what has become durable of their reports, and sends them the changes of
    /// their conversations.
    pub(super) fn acknowledge(&mut self, outstanding: &Outstanding) {
        let (not_after, needs) = (self.inbox.not_after(), self.needs());
        for (attempt, through_number) in self.attempts_with_news(outstanding) {
            let work = Work::RunStep(attempt);
            let is_outstanding = outstanding.contains(&work);
            let active = self.active.get_mut(&work);
            let Some(executor) = active.and_then(|active| active.executor.as_mut()) else {
                continue;
            };
            // An acknowledgement would let it ask the model again. Without one the attempt comes to
            // rest, and its stream ends when everything that it reported is durable.
            let is_to_rest = executor.is_to_rest(needs);
            let comes_to_rest = self.inbox.is_stopping() || is_to_rest;
            if is_outstanding && comes_to_rest && !has_open_intent(&self.session, work) {
                continue;
            }
            let mut ack = Acknowledgement {
                through_number,
                ended: !is_outstanding,
                ..Acknowledgement::default()
            };
            if is_outstanding {
                news_for_executor(
                    &self.session,
                    &self.key,
                    attempt,
                    not_after,
                    &mut executor.view,
                    &mut ack,
                );
                // It only ends its calls, and asks no model with them.
                if is_to_rest {
                    ack.ops.clear();
                }
            }
            let message = Some(ToExecutor::Acknowledgement(ack));
            // An executor that is gone shows as a broken stream.
            let _ = executor
                .to_executor
                .unbounded_send(RunStepRequest { message });
            if !is_outstanding {
                self.active.remove(&work);
            }
        }
    }
}

/// The work is to ask hooks about the end of a run.
pub(super) fn is_of_end(work: Work) -> bool {
    matches!(work, Work::AskHooks(gate) if gate.point == Point::OnRunEnd)
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
