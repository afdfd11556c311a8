//! One attempt at one step, from its start to its end.

use crate::asker::{Asker, Reporting};
use crate::catalogue::{Catalogue, Catalogues};
use crate::config::Config;
use crate::error::{Stop, invalid};
use crate::estimate::Estimator;
use crate::model_step::ModelStep;
use crate::owner::Owner;
use crate::replica::Replica;
use crate::spans;
use crate::targets::{Targets, asks_model};
use crate::tools::{Call, Caller, Limits, Tools};
use crate::turn::{Answer, Turn};
use cairn_engine::command::TurnOptions;
use cairn_engine::event::AttemptRef;
use cairn_engine::failure::Failure;
use cairn_model::{ChatOptions, ModelRegistry};
use cairn_proto::convert::required;
use cairn_proto::event;
use cairn_proto::executor::{AttemptStart, PermittedCall};
use cairn_rpc::{Link, Namespace, RpcError, TraceParent};
use futures::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use tracing::Instrument as _;

/// What all attempts share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) models: Arc<ModelRegistry>,
    pub(crate) tools: Link,
    pub(crate) catalogues: Catalogues,
}

impl Shared {
    /// The model of an attempt.
    fn asker(&self, start: &AttemptStart) -> Result<Asker<'_>, Failure> {
        let model = self.models.get_within(&start.model, start.limits_cost)?;
        Ok(Asker {
            model,
            retry: &self.config.retry,
            prompts: &self.config.prompts,
        })
    }

    /// The catalogue that the owner named last. The owner sends it if it is not here.
    pub(crate) async fn catalogue(&self, owner: &mut Owner) -> Result<Arc<Catalogue>, Stop> {
        if let Some(known) = self.catalogues.get(owner.catalogue_name()) {
            return Ok(known);
        }
        let listed = owner.catalogue().await?;
        Ok(self.catalogues.keep(owner.catalogue_name(), listed)?)
    }
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
        Caller {
            namespace,
            session: std::mem::take(&mut start.session),
            agent: std::mem::take(&mut start.agent),
            trace: caller,
        },
        Limits {
            time: shared.config.call_limit,
            result_bytes: start.result_bytes as usize,
            leaves_results: start.leaves_results,
        },
    );
    if let Some(call) = start.tool_step.take() {
        // Most of these steps ask no model, and work where there is none.
        let asker = asks_model(&call).then(|| shared.asker(&start));
        let asker = match asker.transpose() {
            Ok(asker) => asker,
            Err(failure) => return owner.fail(None, failure.into()).await,
        };
        let targets = Targets {
            tools: &tools,
            asker: asker.as_ref(),
        };
        return tool_step(targets, owner, attempt, call).await;
    }
    let asker = match shared.asker(&start) {
        Ok(asker) => asker,
        Err(failure) => return owner.fail(None, failure.into()).await,
    };
    // In a place of its own: what a step for the model takes is much, and a tool step needs none
    // of it.
    Box::pin(model_step(shared, owner, attempt, (tools, asker), start)).await
}

/// Carries out a step for the model.
async fn model_step(
    shared: &Shared,
    owner: &mut Owner,
    attempt: AttemptRef,
    (tools, asker): (Tools, Asker<'_>),
    mut start: Box<AttemptStart>,
) -> Result<(), Stop> {
    if start.max_tool_turns == 0 {
        return Err(RpcError::missing("start.max_tool_turns").into());
    }
    let (replica, calls) = Replica::new(&mut start)?;
    let catalogue = shared.catalogue(owner).await?;
    let found = std::mem::take(&mut start.found_tools);
    let is_turn = start.options.is_some();
    let options = options(start.options.take(), start.temperature_milli)?;
    let estimator = Estimator::new(&start, &asker.model.describe(), options.max_output_tokens);
    let step = ModelStep {
        shared,
        offer: catalogue.offer(&found),
        found,
        attempt,
        tools,
        owner,
        asker,
        estimator,
        catalogue,
        no_early_calls: start.no_early_calls,
        reporting: Reporting::of(&start),
        is_turn,
        options,
        replica,
    };
    step.run(start, calls).await
}

/// Makes the one call of a tool step, and waits until its result is durable.
async fn tool_step(
    targets: Targets<'_>,
    owner: &mut Owner,
    attempt: AttemptRef,
    call: PermittedCall,
) -> Result<(), Stop> {
    let mut turn = Turn::of_tool_step(attempt);
    let calls = turn.permit(vec![call])?;
    settle(targets, owner, &mut turn, calls).await?;
    owner.report_held();
    loop {
        // Usually this ends here with `Stop::Ended`; a call that was not sent may come again.
        let calls = turn.acknowledge(owner.acknowledgement().await?)?;
        settle(targets, owner, &mut turn, calls).await?;
        owner.report_held();
    }
}

/// Sends the calls, hears the owner on the others, and returns when every call of the turn has
/// its answer and everything is acknowledged that the next model call has to wait for.
pub(crate) async fn settle(
    targets: Targets<'_>,
    owner: &mut Owner,
    turn: &mut Turn,
    calls: Vec<Call>,
) -> Result<(), Stop> {
    let reports = owner.reports();
    let call = |call| targets.call(call, &reports);
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

/// How the model is asked: as the turn says, else at the temperature of the agent.
fn options(
    asked: Option<event::TurnOptions>,
    temperature_milli: Option<u32>,
) -> Result<ChatOptions, RpcError> {
    let asked = asked.map(|asked| required("start.options", Some(asked)));
    let asked: TurnOptions = asked
        .transpose()
        .map_err(|error| invalid(&error))?
        .unwrap_or_default();
    let temperature_milli = asked.temperature_milli.or(temperature_milli);
    Ok(ChatOptions {
        max_output_tokens: asked.max_output_tokens,
        temperature: temperature_milli.map(|milli| milli as f32 / 1000.0),
        format: asked.format,
    })
}
