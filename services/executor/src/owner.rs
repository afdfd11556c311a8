//! The owner's end of the stream: numbered reports out, acknowledgements in.

use crate::deltas::{Deltas, Piece, Retry};
use crate::error::Stop;
use crate::queue::{self, queue};
use crate::spans;
use cairn_engine::limits::LARGEST_REPLY;
use cairn_proto::event::{self as wire, Failure};
use cairn_proto::executor::run_step_request::Message;
use cairn_proto::executor::{
    Acknowledgement, AttemptStart, CallResult, Catalogue, FullRequest, Reply, RetryReport,
    RunStepRequest, RunStepResponse, SummaryReport,
};
use cairn_rpc::{MAX_MESSAGE_BYTES, RpcError};
use futures::future;
use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

/// Results that need not be durable before the next model call wait this long for its reply, so
/// that both are made durable in one round.
pub(crate) const HOLD: Duration = Duration::from_millis(20);

/// More than this is not held: a report has to fit into a message.
const MAX_HELD_BYTES: usize = 1024 * 1024;
/// What a report has beside texts: names, ids and numbers of at most 64 calls.
const AROUND_REPORT: usize = 512 * 1024;
const _: () = assert!(LARGEST_REPLY + MAX_HELD_BYTES + AROUND_REPORT <= MAX_MESSAGE_BYTES);

/// The session's owner, as an attempt sees it.
///
/// The executor has no reading of the store's clock, so it knows of no lease. The owner closes the stream
/// before its lease ends, which stops everything here at once, and the tools service takes no call
/// after its `not_after`.
#[derive(Debug)]
pub(crate) struct Owner {
    inbound: Streaming<RunStepRequest>,
    reports: queue::Sender,
    sent: u64,
    acknowledged: u64,
    needed: u64,
    held: Vec<CallResult>,
    held_bytes: usize,
    held_until: Option<Instant>,
    /// Changes of the conversation that nobody has taken yet.
    ops: Vec<wire::Op>,
    /// Tools that the model has found, and nobody has taken yet.
    found: Vec<String>,
    /// The catalogue that the owner named last.
    catalogue: String,
    /// Acknowledgements that came before the catalogue, for [`acknowledgement`](Self::acknowledgement).
    early: VecDeque<Acknowledgement>,
}

impl Owner {
    /// The owner at the other end of `inbound`, who hears what comes out of the receiver.
    pub(crate) fn new(inbound: Streaming<RunStepRequest>) -> (Self, queue::Receiver) {
        let (reports, receiver) = queue();
        let owner = Self {
            inbound,
            reports,
            sent: 0,
            acknowledged: 0,
            needed: 0,
            held: Vec::new(),
            held_bytes: 0,
            held_until: None,
            ops: Vec::new(),
            found: Vec::new(),
            catalogue: String::new(),
            early: VecDeque::new(),
        };
        (owner, receiver)
    }

    /// Waits for the first message of the stream.
    pub(crate) async fn start(&mut self) -> Result<Box<AttemptStart>, Stop> {
        match self.message().await? {
            Message::Start(start) => {
                self.catalogue.clone_from(&start.catalogue);
                Ok(start)
            }
            Message::Acknowledgement(_) | Message::Catalogue(_) => {
                Err(RpcError::missing("start").into())
            }
        }
    }

    /// Name of the catalogue for the next request.
    pub(crate) fn catalogue_name(&self) -> &str {
        &self.catalogue
    }

    /// Says that the catalogue which the owner named last is not here, and waits for it. The owner's session
    /// moves on meanwhile, so changes of the conversation and decisions on calls may come before it.
    ///
    /// The owner may name another one meanwhile. What it sends is the one that it named last before, which is
    /// [`catalogue_name`](Self::catalogue_name) when this returns.
    pub(crate) async fn catalogue(&mut self) -> Result<Catalogue, Stop> {
        self.reports.report(RunStepResponse {
            lacks_catalogue: true,
            ..RunStepResponse::default()
        });
        loop {
            match self.message().await? {
                Message::Catalogue(catalogue) => return Ok(catalogue),
                Message::Acknowledgement(acknowledgement) => {
                    let early = self.take(acknowledgement)?;
                    self.early.push_back(early);
                }
                Message::Start(_) => return Err(RpcError::missing("catalogue").into()),
            }
        }
    }

    /// Waits for the next acknowledgement, and meanwhile reports results that were held long
    /// enough. Loses nothing when it is dropped.
    pub(crate) async fn acknowledgement(&mut self) -> Result<Acknowledgement, Stop> {
        if let Some(early) = self.early.pop_front() {
            return Ok(early);
        }
        loop {
            let held_until = self.held_until;
            let held_long_enough = async {
                match held_until {
                    Some(end) => sleep_until(end).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                message = self.message() => match message? {
                    Message::Acknowledgement(acknowledgement) => return self.take(acknowledgement),
                    Message::Start(_) => return Err(out_of_place("start")),
                    Message::Catalogue(_) => return Err(out_of_place("catalogue")),
                },
                () = held_long_enough => self.report_held(),
            }
        }
    }

    /// Has the model asked, and meanwhile hears the owner and passes on the text that comes out of
    /// `pieces`. What is still gathered when the reply is whole is in it, and is not passed on. A retry
    /// that comes out of it is reported, and gets its go with the acknowledgement. The work is dropped if
    /// the attempt ends or the owner is gone.
    pub(crate) async fn telling<T>(
        &mut self,
        mut deltas: Deltas,
        mut pieces: mpsc::Receiver<Piece>,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        let mut work = pin!(work);
        let mut retry: Option<(u64, oneshot::Sender<()>)> = None;
        loop {
            let (due, bytes) = (deltas.due(), deltas.next_bytes());
            let room = self.reports.room();
            let gathered_enough = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => future::pending().await,
                }
                room.wait_for(bytes).await;
            };
            tokio::select! {
                biased;
                acknowledgement = self.acknowledgement() => {
                    acknowledgement?;
                    if let Some((_, go)) = retry.take_if(|(number, _)| self.acknowledged >= *number) {
                        let _ = go.send(());
                    }
                }
                done = &mut work => return Ok(done),
                // Not acknowledged, and it may get lost.
                () = gathered_enough => self.reports.pass_on(deltas.part()),
                Some(piece) = pieces.recv() => {
                    if let Some(Retry { report, go }) = deltas.take(piece) {
                        retry = Some((self.report_retry(report), go));
                    }
                }
            }
        }
    }

    /// As [`telling`](Self::telling), with no text to pass on.
    pub(crate) async fn while_listening<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                acknowledgement = self.acknowledgement() => drop(acknowledgement?),
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Reports a reply, after all results before it. It has to be acknowledged before the model is
    /// asked again: a crash then repeats at most one model call.
    pub(crate) fn report_reply(&mut self, reply: Reply) {
        self.report(RunStepResponse {
            reply: Some(Box::new(reply)),
            ..RunStepResponse::default()
        });
        self.needed = self.sent;
    }

    /// Reports a result at once. It has to be acknowledged before the model is asked again.
    pub(crate) fn report_result(&mut self, result: CallResult) {
        // With media it may be as large as a message may be.
        if !result.media.is_empty() {
            self.report_held();
        }
        self.held.push(result);
        self.report(RunStepResponse::default());
        self.needed = self.sent;
    }

    /// Reports a result together with the next reply, but no later than after [`HOLD`], and at
    /// once if too much is held.
    pub(crate) fn hold_result(&mut self, result: CallResult) {
        let media = result.media.iter().map(|media| media.data.len());
        let bytes = result.output.len() + media.sum::<usize>();
        // One with media may be as large as a message may be.
        if bytes > MAX_HELD_BYTES {
            self.report_held();
        }
        self.held_bytes += bytes;
        self.held.push(result);
        if self.held_bytes > MAX_HELD_BYTES {
            return self.report_held();
        }
        self.held_until.get_or_insert_with(|| Instant::now() + HOLD);
    }

    /// Reports what is held, if anything is.
    pub(crate) fn report_held(&mut self) {
        if !self.held.is_empty() {
            self.report(RunStepResponse::default());
        }
    }

    /// Reports that the attempt cannot go on, with what its last question used up, and waits until that
    /// is durable.
    pub(crate) async fn fail(&mut self, paid: Option<Reply>, failure: Failure) -> Result<(), Stop> {
        spans::error(&failure.reason);
        self.report(RunStepResponse {
            reply: paid.map(Box::new),
            failure: Some(failure),
            ..RunStepResponse::default()
        });
        self.until_acknowledged().await
    }

    /// Reports that the model was not asked, because a request takes too much of its window. Returns once the
    /// model may be asked all the same. To compact the conversation, the owner ends the stream instead.
    pub(crate) async fn report_full(&mut self, full: FullRequest) -> Result<(), Stop> {
        self.report(RunStepResponse {
            full: Some(full),
            ..RunStepResponse::default()
        });
        self.until_acknowledged().await
    }

    /// Reports that the model is to be asked again. Returns the number of the report.
    fn report_retry(&mut self, retry: RetryReport) -> u64 {
        self.report(RunStepResponse {
            retry: Some(retry),
            ..RunStepResponse::default()
        });
        self.sent
    }

    /// Reports what is held, and waits until every report is durable and nothing stands against the next
    /// request. An owner that waits long for hooks ends the stream instead.
    pub(crate) async fn settled(&mut self) -> Result<(), Stop> {
        self.report_held();
        self.until_acknowledged().await
    }

    /// Reports a summary, or why there is none, and waits for the end of the stream.
    pub(crate) async fn report_summary(
        &mut self,
        summary: SummaryReport,
        failure: Option<Failure>,
    ) -> Result<(), Stop> {
        self.report(RunStepResponse {
            summary: Some(Box::new(summary)),
            failure,
            ..RunStepResponse::default()
        });
        loop {
            self.acknowledgement().await?;
        }
    }

    /// Waits until the last report is durable.
    async fn until_acknowledged(&mut self) -> Result<(), Stop> {
        self.needed = self.sent;
        while !self.has_everything() {
            self.acknowledgement().await?;
        }
        Ok(())
    }

    /// The changes of the conversation that have come since the last time.
    pub(crate) fn take_ops(&mut self) -> Vec<wire::Op> {
        std::mem::take(&mut self.ops)
    }

    /// The deferred tools that the model has found since the last time.
    pub(crate) fn take_found(&mut self) -> Vec<String> {
        std::mem::take(&mut self.found)
    }

    /// Where progress of calls goes.
    pub(crate) fn reports(&self) -> queue::Sender {
        self.reports.clone()
    }

    /// Whether all is acknowledged that has to be before the model is asked again.
    pub(crate) fn has_everything(&self) -> bool {
        self.acknowledged >= self.needed
    }

    /// Whether all that was ever reported is acknowledged.
    pub(crate) fn knows_everything(&self) -> bool {
        self.acknowledged == self.sent
    }

    /// Sends a report with its number and what is held.
    fn report(&mut self, report: RunStepResponse) {
        self.sent += 1;
        self.held_bytes = 0;
        self.held_until = None;
        self.reports.report(RunStepResponse {
            number: self.sent,
            results: std::mem::take(&mut self.held),
            ..report
        });
    }

    /// Keeps the changes of an acknowledgement for the next request, and returns what it says of calls.
    fn take(&mut self, mut acknowledgement: Acknowledgement) -> Result<Acknowledgement, Stop> {
        self.ops.append(&mut acknowledgement.ops);
        self.found.append(&mut acknowledgement.found_tools);
        if !acknowledgement.catalogue.is_empty() {
            self.catalogue = std::mem::take(&mut acknowledgement.catalogue);
        }
        if acknowledgement.through_number > self.sent {
            let field = "acknowledgement.through_number";
            let error = RpcError::invalid(field, "names a report that was not sent");
            return Err(error.allowed(format!("0 to {}", self.sent)).into());
        }
        self.acknowledged = self.acknowledged.max(acknowledgement.through_number);
        if acknowledgement.ended {
            return Err(Stop::Ended);
        }
        Ok(acknowledgement)
    }

    async fn message(&mut self) -> Result<Message, Stop> {
        match self.inbound.message().await {
            Ok(Some(request)) => Ok(request
                .message
                .ok_or_else(|| RpcError::missing("message"))?),
            // The acknowledgement of the end may be lost: the owner closes the stream right after it.
            Ok(None) => Err(Stop::Ended),
            Err(_) => Err(Stop::Gone),
        }
    }
}

fn out_of_place(field: &str) -> Stop {
    RpcError::invalid(field, "comes where an acknowledgement is expected").into()
}
