//! Starts an attempt in a slot.

use super::executor_view::{StartLimits, attempt_start};
use super::stream::{Offer, Reports, Storing};
use super::work::Executor;
use super::{Message, Owner};
use crate::dispatch::Slot;
use crate::observe::trace_of;
use crate::store::for_session;
use cairn_engine::event::AttemptRef;
use cairn_engine::outstanding::Work;
use cairn_proto::executor::RunStepRequest;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::{LARGE_START, START_BYTES};
use cairn_rpc::trace::is_passed_on;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::FutureExt as _;
use futures::stream::{self, Stream, StreamExt as _};
use prost::Message as _;
use tonic::Request;

/// The attempt of a stream, with what its reports take.
struct Begins {
    attempt: AttemptRef,
    /// The stream's number at its owner.
    stream: u64,
    /// Most bytes of a result that the model gets at once.
    result_bytes: usize,
    to_executor: UnboundedSender<RunStepRequest>,
    offer: Offer,
}

impl Owner {
    pub(super) fn start_in(&mut self, slot: Slot, work: Work, attempt: AttemptRef) {
        let catalogue = self.catalogue_of(attempt, slot.tools());
        let limits = self.start_limits(attempt);
        let Some((start, view)) =
            attempt_start(&self.session, &self.key, attempt, &catalogue, limits)
        else {
            return;
        };
        // A channel for a few messages: one that makes room for many at once costs a tool step more
        // than its messages do.
        let (to_executor, from_owner) = unbounded();
        let offer = Offer::new(catalogue);
        let start_bytes = start.encoded_len();
        let first = RunStepRequest {
            message: Some(ToExecutor::Start(Box::new(start))),
        };
        // The receiver is right here.
        let _ = to_executor.unbounded_send(first);
        let mut requests = self.in_trace(attempt, from_owner);
        name_bytes(&mut requests, start_bytes);
        let executor = Executor {
            id: slot.executor().clone(),
            level: slot.level(),
            resources: slot.resources().into(),
            given: self.given(attempt, slot.tools()),
            is_unserved: false,
            start_bytes,
            to_executor: to_executor.clone(),
            view,
            offer: offer.clone(),
        };
        let begins = Begins {
            attempt,
            stream: self.next_stream,
            result_bytes: limits.result_bytes,
            to_executor,
            offer,
        };
        let lost = self.lost_capability(&slot, attempt, begins.stream);
        let reports = self.reports(slot, requests, begins);
        match lost {
            None => self.begin_work(work, reports, Some(executor)),
            Some(lost) => {
                let messages = stream::select(reports, stream::once(lost));
                self.begin_work(work, messages, Some(executor));
            }
        }
    }

    /// Begins the attempt, and brings what its executor reports.
    fn reports(
        &self,
        slot: Slot,
        requests: Request<UnboundedReceiver<RunStepRequest>>,
        begins: Begins,
    ) -> impl Stream<Item = Message> + Send + use<> {
        let (store, key) = (self.deps.store.clone(), self.key.clone());
        let dispatch = self.deps.dispatch.clone();
        let Begins {
            attempt, stream, ..
        } = begins;
        let reports = async move {
            match slot.run_step(requests).await {
                Ok((answers, used)) => {
                    let reports = Reports {
                        used: Some(used),
                        answers,
                        to_executor: begins.to_executor,
                        offer: begins.offer,
                        store,
                        key,
                        attempt,
                        stream,
                        publisher: None,
                        dispatch,
                        long: Storing::new(begins.result_bytes),
                        waiting: None,
                    };
                    reports.left_stream()
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
        reports.flatten_stream()
    }

    /// A request about an attempt, in the trace of its run.
    fn in_trace<T>(&self, attempt: AttemptRef, message: T) -> Request<T> {
        let mut request = for_session(&self.key, message);
        let run = self.session.run(attempt.run).filter(|_| is_passed_on());
        if let Some(trace) = run.and_then(|run| trace_of(&self.key, run)) {
            trace.set_on(&mut request);
        }
        request
    }

    fn start_limits(&self, attempt: AttemptRef) -> StartLimits {
        let config = &self.deps.config;
        StartLimits {
            not_after: self.inbox.not_after(),
            result_bytes: self.session.result_bytes(attempt.run, config.result_bytes),
            compact_at_permille: self
                .session
                .compaction(attempt, config.compaction)
                .at_permille,
        }
    }
}

/// Lets the executor know what comes, before it comes.
fn name_bytes<T>(request: &mut Request<T>, start_bytes: usize) {
    if start_bytes >= LARGE_START {
        let metadata = request.metadata_mut();
        metadata.insert(START_BYTES, (start_bytes as u64).into());
    }
}
