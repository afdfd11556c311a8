//! One attempt at one step, from its start to its end.

use crate::catalogue::{Catalogue, Catalogues, Offer};
use crate::config::Config;
use crate::deltas::{Deltas, Piece};
use crate::error::{Stop, invalid};
use crate::owner::Owner;
use crate::replica::{LastCall, Replica};
use crate::spans;
use crate::tools::{Call, Limits, Tools, millis};
use crate::turn::{Answer, Turn, give_ids};
use cairn_engine::command::TurnOptions;
use cairn_engine::conversation::Op;
use cairn_engine::event::AttemptRef;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Usage};
use cairn_model::{
    ChatOptions, ChatReply, ChatRequest, Model, ModelError, ModelRegistry, Progress,
    stream_with_retry, traced,
};
use cairn_proto::convert::{repeated, required};
use cairn_proto::event;
use cairn_proto::executor::{AttemptStart, PermittedCall, Reply};
use cairn_rpc::metrics::{self, counter, histogram};
use cairn_rpc::trace::is_content_wanted;
use cairn_rpc::{Link, Namespace, RpcError, TraceParent};
use futures::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;

/// Most pieces of a reply that wait to be gathered; then the model's stream waits. Gathering waits for no
/// owner, because a provider breaks off a reply that is not read, and it has to be paid for again. What is
/// gathered has at most the bytes of a reply.
const MOST_PIECES: usize = 1024;

/// What all attempts share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) models: Arc<ModelRegistry>,
    pub(crate) tools: Link,
    pub(crate) catalogues: Catalogues,
}

/// Carries out the attempt that the owner sends, until the owner says that it has ended, a
/// failure is reported, or the stream breaks.
///
/// # Errors
/// Why the attempt cannot go on over this stream.
pub(crate) async fn run(
    shared: &Shared,
    namespace: Namespace,
    caller: Option<TraceParent>,
    mut owner: Owner,
) -> Result<(), RpcError> {
    let outcome = match owner.start().await {
        Ok(start) => {
            let at = start.attempt.unwrap_or_default();
            let logged = tracing::info_span!(
                "attempt",
                session = start.session,
                run = at.run,
                step = at.step,
                attempt = at.attempt
            );
            let traced = spans::attempt(caller, &start);
            // Boxed, so that it is not moved from wrapper to wrapper.
            let work = Box::pin(carry_out(shared, namespace, caller, &mut owner, start));
            let outcome = work.instrument(traced.clone()).instrument(logged).await;
            spans::ended(&traced, &outcome);
            outcome
        }
        Err(stop) => Err(stop),
    };
    match outcome {
        Ok(()) | Err(Stop::Ended | Stop::Gone) => Ok(()),
        Err(Stop::Broken(error)) => Err(error),
    }
}

async fn carry_out(
    shared: &Shared,
    namespace: Namespace,
    caller: Option<TraceParent>,
    owner: &mut Owner,
    mut start: Box<AttemptStart>,
) -> Result<(), Stop> {
    let attempt: AttemptRef =
        required("start.attempt", start.attempt).map_err(|error| invalid(&error))?;
    if start.session.is_empty() {
        return Err(RpcError::missing("start.session").into());
    }
    let tools = Tools::new(
        shared.tools.clone(),
        namespace,
        std::mem::take(&mut start.session),
        caller,
        Limits {
            time: shared.config.call_limit,
            result_bytes: start.result_bytes,
        },
    );
    if let Some(call) = start.tool_step {
        return tool_step(&tools, owner, attempt, call).await;
    }
    let model = match shared.models.get_within(&start.model, start.limits_cost) {
        Ok(model) => model,
        Err(failure) => return owner.fail(None, failure.into()).await,
    };
    if start.max_tool_turns == 0 {
        return Err(RpcError::missing("start.max_tool_turns").into());
    }
    let (replica, calls) = Replica::new(&mut start)?;
    let catalogue = match shared.catalogues.get(&start.catalogue) {
        Some(catalogue) => catalogue,
        None => shared
            .catalogues
            .keep(&start.catalogue, owner.catalogue().await?)?,
    };
    let found = std::mem::take(&mut start.found_tools);
    let step = ModelStep {
        offer: catalogue.offer(&found),
        found,
        shared,
        attempt,
        tools: &tools,
        owner,
        model,
        catalogue,
        no_early_calls: start.no_early_calls,
        is_turn: start.options.is_some(),
        options: options(start.options.take())?,
        replica,
    };
    // In a place of its own: what a step for the model takes is much, and a tool step needs none
    // of it.
    Box::pin(step.run(start, calls)).await
}

/// Makes the one call of a tool step, and waits until its result is durable.
async fn tool_step(
    tools: &Tools,
    owner: &mut Owner,
    attempt: AttemptRef,
    call: PermittedCall,
) -> Result<(), Stop> {
    let mut turn = Turn::of_tool_step(attempt);
    let calls = turn.permit(vec![call])?;
    settle(tools, owner, &mut turn, calls).await?;
    owner.report_held();
    loop {
        // Usually this ends here with `Stop::Ended`; a call that was not sent may come again.
        let calls = turn.acknowledge(owner.acknowledgement().await?)?;
        settle(tools, owner, &mut turn, calls).await?;
        owner.report_held();
    }
}

/// Sends the calls, hears the owner on the others, and returns when every call of the turn has
/// its answer and everything is acknowledged that the next model call has to wait for.
async fn settle(
    tools: &Tools,
    owner: &mut Owner,
    turn: &mut Turn,
    calls: Vec<Call>,
) -> Result<(), Stop> {
    let reports = owner.reports();
    let call = |call| tools.call(call, &reports);
    let mut running: FuturesUnordered<_> = calls.into_iter().map(call).collect();
    let mut lost = None;
    loop {
        if owner.has_everything() {
            if turn.is_answered() {
                return Ok(());
            }
            if running.is_empty() {
                // Nothing more will come from here. The owner has to answer what is left, and
                // it may need the results for that.
                owner.report_held();
                // Calls beside the lost one may have had effects: they were waited for.
                if let Some(error) = lost {
                    return Err(Stop::Broken(error));
                }
                if owner.knows_everything() {
                    turn.refuse_waiting()?;
                }
            }
        }
        tokio::select! {
            biased;
            acknowledgement = owner.acknowledgement() => {
                let calls = turn.acknowledge(acknowledgement?)?;
                if lost.is_none() {
                    running.extend(calls.into_iter().map(call));
                }
            }
            Some((call, outcome)) = running.next() => match outcome {
                Ok(ended) => {
                    let waited = match ended.is_left_to_owner {
                        true => turn.leave_to_owner(call),
                        false => turn.answer(call, Answer::of(&ended.result)),
                    };
                    if waited {
                        if ended.urgent {
                            owner.report_result(ended.result);
                        } else {
                            owner.hold_result(ended.result);
                        }
                    }
                }
                Err(error) => lost = Some(error),
            },
        }
    }
}

/// A step for the model.
struct ModelStep<'a> {
    shared: &'a Shared,
    attempt: AttemptRef,
    tools: &'a Tools,
    owner: &'a mut Owner,
    model: Arc<dyn Model>,
    catalogue: Arc<Catalogue>,
    /// Deferred tools that the model has found.
    found: Vec<String>,
    offer: Offer,
    /// Every call waits for its permit.
    no_early_calls: bool,
    /// It is a turn of a conversation, and no step of a plan.
    is_turn: bool,
    options: ChatOptions,
    replica: Replica,
}

/// How the model of a turn is asked.
fn options(asked: Option<event::TurnOptions>) -> Result<ChatOptions, RpcError> {
    let asked = asked.map(|asked| required("start.options", Some(asked)));
    let asked: TurnOptions = asked
        .transpose()
        .map_err(|error| invalid(&error))?
        .unwrap_or_default();
    Ok(ChatOptions {
        max_output_tokens: asked.max_output_tokens,
        temperature: asked.temperature_milli.map(|milli| milli as f32 / 1000.0),
        format: asked.format,
    })
}

impl ModelStep<'_> {
    /// Makes the calls that are still to be made, then asks the model until the attempt ends.
    async fn run(mut self, start: Box<AttemptStart>, calls: Vec<LastCall>) -> Result<(), Stop> {
        let last_turn = self.replica.tool_turns().saturating_sub(1);
        let mut turn = Turn::resumed(self.attempt, last_turn, calls);
        turn.hold(start.held_calls)?;
        let calls = turn.permit(start.open_calls)?;
        settle(self.tools, self.owner, &mut turn, calls).await?;
        self.replica.add_results(turn.into_results());
        loop {
            if self.replica.tool_turns() >= start.max_tool_turns {
                let failure = turns_used_up(start.max_tool_turns);
                return self.owner.fail(None, failure.into()).await;
            }
            let (reply, duration_ms) = match self.ask().await? {
                Ok(answered) => answered,
                Err(Unanswered { failure, paid }) => {
                    return self.owner.fail(paid, failure.into()).await;
                }
            };
            self.take_reply(reply, duration_ms).await?;
        }
    }

    /// What the model is asked next: all that the owner has said so far is in it.
    fn request(&mut self) -> Result<ChatRequest, RpcError> {
        let ops: Vec<Op> =
            repeated("ops", self.owner.take_ops()).map_err(|error| invalid(&error))?;
        self.replica.take_ops(ops);
        let found = self.owner.take_found();
        if !found.is_empty() {
            self.found.extend(found);
            self.offer = self.catalogue.offer(&self.found);
        }
        let (messages, stable) = self.replica.messages()?;
        Ok(ChatRequest {
            messages,
            stable,
            tools: Arc::clone(&self.offer.tools),
            options: self.options.clone(),
        })
    }

    /// A request that is larger than the model's window is not sent.
    fn check_window(&self, request: &ChatRequest) -> Result<(), Failure> {
        let tokens = self.model.estimate_tokens(&request.messages) + self.offer.tokens;
        let window = self.model.describe().window_tokens;
        if tokens <= window {
            return Ok(());
        }
        let what = match self.is_turn {
            true => {
                "remove messages of the context (cairn context remove), give it a window (cairn context \
                 set --window), or take a model with a larger window"
            }
            false => {
                "split the step, have it read less at a time, or take a model with a larger window"
            }
        };
        let message = format!(
            "the request has about {tokens} tokens, and the model's window_tokens is {window}: {what}"
        );
        let kind = FailureKind::LimitExceeded;
        Err(Failure::new(kind, "CONTEXT_FULL", message))
    }

    /// Asks the model, and again where that may help. The duration is in milliseconds.
    async fn ask(&mut self) -> Result<Result<(ChatReply, u64), Unanswered>, Stop> {
        let request = self.request()?;
        if let Err(failure) = self.check_window(&request) {
            return Ok(Err(Unanswered {
                failure,
                paid: None,
            }));
        }
        let asked = Instant::now();
        let (pieces, come) = mpsc::channel(MOST_PIECES);
        let pieces = &pieces;
        let question = stream_with_retry(
            &*self.model,
            &request,
            &self.shared.config.retry,
            move |progress| {
                let piece = match progress {
                    Progress::Text(text) => Piece::Text(text.to_owned()),
                    Progress::Retry {
                        attempt,
                        error,
                        wait,
                    } => {
                        tracing::warn!(attempt, %error, ?wait, "the model is asked again");
                        traced::retry(attempt, error);
                        Piece::Anew
                    }
                };
                async move {
                    // The receiver is there for as long as the model is asked.
                    let _ = pieces.send(piece).await;
                }
            },
        );
        let deltas = Deltas::new(self.attempt, self.replica.tool_turns());
        let with_content = is_content_wanted();
        let span = traced::question(&*self.model, &request, with_content);
        let question = question.instrument(span.clone());
        let answer = self.owner.telling(deltas, come, question).await?;
        traced::answered(&span, &answer, with_content);
        let took = asked.elapsed();
        self.count(&answer, took);
        Ok(match answer {
            Ok(reply) => Ok((reply, millis(took))),
            Err(error) => Err(Unanswered {
                paid: error.usage().map(|usage| self.paid(usage, millis(took))),
                failure: error.into(),
            }),
        })
    }

    fn count(&self, answer: &Result<ChatReply, ModelError>, took: Duration) {
        let name = self.model.describe().name;
        let model = metrics::label(metrics::Kind::Model, &name);
        histogram!(metrics::MODEL_SECONDS, "model" => model.clone()).record(took);
        let used = match answer {
            Ok(reply) => {
                counter!(metrics::TOOL_TURNS, "model" => model).increment(1);
                Some(reply.usage)
            }
            Err(error) => error.usage(),
        };
        if let Some(used) = used {
            let (input, output) = (used.input_tokens, used.output_tokens);
            metrics::spend(&name, input, output, used.cost_nano_usd);
        }
    }

    /// What a question without a reply used up, as a reply with nothing in it.
    fn paid(&self, usage: Usage, duration_ms: u64) -> Reply {
        let model = self.model.describe();
        Reply {
            tool_turn: self.replica.tool_turns(),
            usage: Some(usage.into()),
            provider: model.provider,
            model: model.name,
            duration_ms,
            ops_through: self.replica.ops_through(),
            ..Reply::default()
        }
    }

    /// Reports a reply and sees its calls through.
    async fn take_reply(&mut self, reply: ChatReply, duration_ms: u64) -> Result<(), Stop> {
        let number = self.replica.tool_turns();
        let (text, mut calls, opaque) = reply.message.into_reply();
        give_ids(number, &mut calls);
        self.owner.report_reply(Reply {
            tool_turn: number,
            text: text.clone(),
            tool_calls: calls.iter().cloned().map(Into::into).collect(),
            opaque: opaque.iter().cloned().map(Into::into).collect(),
            finish: event::FinishReason::from(reply.finish).into(),
            usage: Some(reply.usage.into()),
            provider: self.model.describe().provider,
            model: reply.model,
            duration_ms,
            ops_through: self.replica.ops_through(),
        });
        let mut turn = Turn::new(self.attempt, number, &calls);
        let mut early = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let digest = self.catalogue.early.get(&call.name);
            if let Some(digest) = digest.filter(|_| !self.no_early_calls) {
                early.push(Call::pure(turn.start(index), call, digest.clone()));
            }
        }
        self.replica.add_reply(Message::reply(text, calls, opaque));
        settle(self.tools, self.owner, &mut turn, early).await?;
        self.replica.add_results(turn.into_results());
        Ok(())
    }
}

/// A question that ends the attempt.
struct Unanswered {
    failure: Failure,
    /// What it used up all the same.
    paid: Option<Reply>,
}

fn turns_used_up(max_tool_turns: u32) -> Failure {
    Failure::new(
        FailureKind::LimitExceeded,
        "max_tool_turns",
        format!(
            "the step was not completed within {max_tool_turns} tool turns; split it into smaller \
             steps or allow more with max_tool_turns"
        ),
    )
}
