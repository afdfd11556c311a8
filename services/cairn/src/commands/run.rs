//! `cairn run`: plan a goal, carry it out, watch it to its end.

use super::agent::{not_found, workspace};
use super::follow::{self, Following, has_person};
use super::mode::{self, ModeName};
use super::plan_file;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::{CommandLimits, millis, nano_usd};
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_boot::config::duration;
use cairn_engine::limits::MAX_CONVERSATIONS;
use cairn_proto::event as wire;
use cairn_proto::event::{AtLimit, LimitOverrides, Mode, StartRun};
use cairn_proto::orchestrator::{CreateSessionRequest, StartRunRequest, StartRunResponse};
use cairn_rpc::text::escape;
use clap::builder::NonEmptyStringValueParser;
use clap::{ValueEnum, value_parser};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What can be said to `cairn run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What is to be reached
    #[arg(required_unless_present = "plan")]
    goal: Option<String>,
    /// Carry out this plan instead of making one: a JSON file, or - for standard input
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The model, by its name in the settings of the process that does the work [default: as they say;
    /// openai if it is configured, else offline]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// The agent that plans and carries out: the name of a stored one, or workspace:NAME for that of a confirmed
    /// file [default: none]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    agent: Option<String>,
    /// What models do without asking [default: as the session has it, ask if it is new]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeName>,
    /// How long the offline model waits before each reply, such as 400ms, so that you can follow
    #[arg(long, value_name = "TIME")]
    pub(super) pace: Option<String>,
    /// Run in the session of this whole id, which is made if it is not there [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Delete the new session when nothing has changed in it for so long, such as 7d [default: as
    /// store.retention.after says, indefinitely if it says nothing]
    #[arg(long, value_name = "TIME", value_parser = keep)]
    keep: Option<Duration>,
    /// The task that the run stands for in another system, at most 128 bytes; models do not see it
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    external_id: Option<String>,
    /// What the models of all steps are told in addition, at most 4 KiB
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    note: Option<String>,
    /// Names the start: the same one twice starts once
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Write the execution tree into tree.txt and tree.json after every change [DIR: .trace]
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".trace"
    )]
    tree_dir: Option<PathBuf>,
    /// Most tool turns in one attempt at a step; then it waits and asks [default: that of the agent or the settings,
    /// else 100]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000))]
    max_tool_turns: Option<u32>,
    /// Most tool turns in the whole run; then it waits and asks [default: that of the agent or the settings, else
    /// 500]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100_000))]
    max_turns: Option<u32>,
    /// Most steps of a graph that run at the same time
    #[arg(
        long,
        value_name = "N",
        value_parser = value_parser!(u32).range(1..=i64::from(MAX_CONVERSATIONS))
    )]
    max_parallel_steps: Option<u32>,
    /// What the run does when a step fails [default: that of the settings]
    #[arg(long, value_enum, value_name = "WHAT")]
    on_failure: Option<OnFailure>,
    /// With --on-failure revise: most revisions in a row that the run asks for by itself
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    max_own_revisions: Option<u32>,
    /// Show the plan and wait for a person's approval before it is carried out
    #[arg(long)]
    review: bool,
    /// Most tokens, in and out, of planning and all steps; then it waits and asks
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000_000))]
    max_tokens: Option<u64>,
    /// Most money in US dollars, such as 0.50; then it waits and asks
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    max_cost: Option<u64>,
    /// Longest time that it may be active, such as 10m; then it waits and asks
    #[arg(long, value_name = "TIME", value_parser = active)]
    max_time: Option<Duration>,
    /// Most tool calls; then it waits and asks
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_calls: Option<u32>,
    /// Also tell what the model does to its own state: notes, parts of steps, session memory. On a
    /// terminal nothing is told but the plan as it moves on
    #[arg(short, long)]
    verbose: bool,
    /// Also print replies while the model writes them, and how far calls are: whole lines, or with
    /// --json lines of the kinds text_delta and call_progress. On a terminal replies are shown in any
    /// case
    #[arg(long)]
    deltas: bool,
}

/// The flags of fields of the request.
const FLAGS: [(&str, &str); 6] = [
    ("request_id", "--request-id"),
    ("time_to_live_ms", "--keep"),
    ("run.model", "--model"),
    ("run.agent", "--agent"),
    ("run.external_id", "--external-id"),
    ("run.note", "--note"),
];
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// Other unfinished sessions that are named.
const MOST_OTHERS: usize = 3;

/// What a run does when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// Begin nothing more; the run fails
    Stop,
    /// Carry out what does not depend on the step; the run fails in the end
    GoOn,
    /// Ask the planner for a plan that gets round it
    Revise,
}

impl OnFailure {
    const fn of_contract(self) -> wire::OnFailure {
        match self {
            Self::Stop => wire::OnFailure::Stop,
            Self::GoOn => wire::OnFailure::GoOn,
            Self::Revise => wire::OnFailure::Revise,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  cairn run \"Which files under docs mention Redis, and what do they say about it?\"
  cairn run --in ~/project --model openai \"Summarise the open questions in the notes\"
  cairn run --plan plan.json
  cairn run --agent reviewer \"Review the change of today\"
  echo '{\"steps\": [{\"tool\": \"list_files\", \"arguments\": {}}]}' | cairn run --plan -

Once it has begun, a run survives Ctrl-C, kill -9 and power cuts: cairn resume continues with it.
On a terminal, a question of the run is asked in line, and the run continues with your answer. Ctrl-D
leaves the run waiting. Elsewhere, the command ends with exit code 3 and names the commands that answer.
This command works on its own session alone. It names the other unfinished sessions of the store and
leaves them as they are; cairn resume continues them.
With --json, each event of the run is one line, as in cairn export.
Exit codes: 0 completed, 1 failed or cancelled, 3 it waits for a person, 130 interrupted.";

/// Starts a run and follows it.
///
/// # Errors
/// A plan that cannot be read, a start that is refused, an interruption.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let plan = match &args.plan {
        Some(path) => Some(plan_file::read(path).await?.into()),
        None => None,
    };
    let goal = args.goal.clone().unwrap_or_default();
    if plan.is_none() && goal.trim().is_empty() {
        return Err(CliError::usage("the goal is empty").hint("say what is to be reached"));
    }
    if args.session.as_deref() == Some("") {
        return Err(CliError::usage("the session's id is empty")
            .hint("name the session, or leave --session out for a new one"));
    }
    if args.mode.is_some() && args.request_id.is_some() && args.session.is_none() {
        // A start that is sent again would get another new session.
        return Err(
            CliError::usage("--mode with --request-id needs the session")
                .hint("name it with --session"),
        );
    }
    let mut client = Client::attach(context, Access::Own).await?;
    workspace::report_unconfirmed(&client).await;
    if let Some(agent) = args.agent.as_deref().filter(|_| args.model.is_none()) {
        workspace::report_model(&client, agent).await;
    }
    let request = StartRunRequest {
        session: args.session.clone().unwrap_or_default(),
        request_id: (args.request_id.clone()).unwrap_or_else(|| new_id("run")),
        run: Some(StartRun {
            goal,
            plan,
            limits: Some(limits(&args, context)),
            model: client.model(
                args.model.clone(),
                args.agent.as_deref().unwrap_or_default(),
            ),
            agent: args.agent.clone().unwrap_or_default(),
            answers_questions: has_person(context),
            external_id: args.external_id.clone().unwrap_or_default(),
            note: args.note.clone().unwrap_or_default(),
            ..StartRun::default()
        }),
        time_to_live_ms: args.keep.map_or(0, millis),
    };
    let followed = start_and_follow(&mut client, request, args).await;
    client.finish().await;
    followed
}

fn limits(args: &Args, context: &Context) -> LimitOverrides {
    let on_failure = args.on_failure.map(OnFailure::of_contract);
    // An agent has limits of its own.
    let own = CommandLimits::of(&context.settings);
    let own = args.agent.is_none().then_some(own);
    let max_tool_turns = args.max_tool_turns.or(own.map(|own| own.max_tool_turns));
    let max_turns = args.max_turns.or(own.map(|own| own.max_turns));
    LimitOverrides {
        max_tool_turns: max_tool_turns.unwrap_or(0),
        max_turns: max_turns.unwrap_or(0),
        at_limit: AtLimit::Ask.into(),
        max_parallel_steps: args.max_parallel_steps.unwrap_or(0),
        max_own_revisions: args.max_own_revisions.unwrap_or(0),
        on_failure: on_failure.unwrap_or_default().into(),
        review_plan: args.review,
        max_tokens: args.max_tokens.unwrap_or(0),
        max_cost_nano_usd: args.max_cost.unwrap_or(0),
        max_active_ms: args.max_time.map_or(0, millis),
        max_calls: args.max_calls.unwrap_or(0),
    }
}

async fn start_and_follow(
    client: &mut Client<'_>,
    request: StartRunRequest,
    args: Args,
) -> Result<ExitCode, CliError> {
    let given = Some(request.session.as_str()).filter(|session| !session.is_empty());
    // A start that is sent again continues its run, and only the services know in which session.
    if given.is_some() || args.request_id.is_some() {
        client.check_folder(given)?;
    }
    if args.request_id.is_none() {
        check_price(client, &request)?;
    }
    let mode = args.mode.map(ModeName::of_contract);
    let started = Box::pin(start(client, request, mode)).await?;
    client.work_on(&started.session)?;
    name_others(client, &started.session).await?;
    let what = Following {
        session: started.session,
        run: started.run,
        after: started.seq.saturating_sub(1),
        seen_before: 0,
        tree_dir: args.tree_dir,
        verbose: args.verbose,
        deltas: args.deltas,
    };
    follow::follow(client, &what).await
}

/// Refuses a run whose budget of money would never stop its model, before there is a session. Only the models
/// of this process are known here; services elsewhere refuse it when they ask theirs.
fn check_price(client: &Client<'_>, request: &StartRunRequest) -> Result<(), CliError> {
    let run = request.run.as_ref();
    let Some(run) = run.filter(|_| !client.attached().is_remote()) else {
        return Ok(());
    };
    let settings = client.context().config();
    let limits = run.limits.as_ref();
    let limits_cost =
        settings.run.max_cost.is_some() || limits.is_some_and(|it| it.max_cost_nano_usd > 0);
    // Only the services know the model of an agent.
    if run.model.is_empty() && !run.agent.is_empty() {
        return Ok(());
    }
    let is_planned = |plan: &wire::Plan| plan.steps.iter().all(|step| step.tool.is_some());
    if !limits_cost || run.plan.as_ref().is_some_and(is_planned) {
        return Ok(());
    }
    match settings.registry().get_within(&run.model, true) {
        Err(failure) if failure.reason == "no_price" => Err(CliError::usage(failure.message)),
        // Whatever else is wrong with the model is for the services to say.
        _ => Ok(()),
    }
}

/// Names the unfinished sessions that this command does not work on. The run does not need them: a
/// list that cannot be had is left out.
async fn name_others(client: &Client<'_>, own: &str) -> Result<(), CliError> {
    let context = client.context();
    // Another process that holds the store decides what is worked on.
    if context.json || !client.attached().is_holder() {
        return Ok(());
    }
    let Ok(sessions) = client.unfinished(usize::MAX).await else {
        return Ok(());
    };
    let others = sessions.iter().filter(|it| it.id != own);
    let others: Vec<_> = others.map(|it| it.id.as_str()).collect();
    let Some(latest) = others.first() else {
        return Ok(());
    };
    let (count, shown) = (others.len(), &others[..others.len().min(MOST_OTHERS)]);
    let more = if count > shown.len() { ", …" } else { "" };
    let names = format!("{}{more}", shown.join(", "));
    let what = match count {
        1 => format!("another session is unfinished and stays as it is: {names}"),
        _ => format!("{count} other sessions are unfinished and stay as they are: {names}"),
    };
    let style = Style::new(context.color);
    out::line(&style.dim(&escape(&what)))?;
    out::line(&style.dim(&format!("next   {}", resume_command(context, latest))))
}

async fn start(
    client: &mut Client<'_>,
    mut request: StartRunRequest,
    mode: Option<Mode>,
) -> Result<StartRunResponse, CliError> {
    // The session has its mode before anything of the run is judged.
    if !request.session.is_empty() || mode.is_some() {
        let keep_ms = std::mem::take(&mut request.time_to_live_ms);
        request.session = session(client, &request.session, keep_ms).await?;
    }
    if let Some(mode) = mode {
        client.work_on(&request.session)?;
        mode::set(client, &request.session, mode).await?;
    }
    // The same request_id each time, so that nothing starts twice.
    let started = client.persist(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.start_run(request).await }
    });
    started
        .await
        .map_err(|error| refused(client.context(), &request, error.naming(&FLAGS)))
}

/// The session of this id, or a new one, which has an id of its own if none is given. Never one whose id only begins
/// like it: a run does things.
async fn session(client: &Client<'_>, given: &str, keep_ms: u64) -> Result<String, CliError> {
    if !given.is_empty() && client.is_there(given).await? {
        if keep_ms > 0 {
            return Err(
                CliError::usage(format!("there is a session {given} already"))
                    .hint("--keep is for a new one"),
            );
        }
        return Ok(given.to_owned());
    }
    let request = CreateSessionRequest {
        session: given.to_owned(),
        request_id: new_id("session"),
        title: String::new(),
        time_to_live_ms: keep_ms,
    };
    // The same request_id each time, so that it is made once.
    let created = client.patiently(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.create_session(request).await }
    });
    Ok(created.await?.session)
}

/// How long a session may stay.
fn keep(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(1)..=10 * YEAR)
}

/// How long a run may be active.
fn active(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_millis(1)..=YEAR)
}

fn time(text: &str, allowed: RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = duration::parse(text).filter(|time| allowed.contains(time));
    time.ok_or_else(|| {
        let (first, last) = (
            duration::show(*allowed.start()),
            duration::show(*allowed.end()),
        );
        format!("a whole number with a unit, from {first} to {last}")
    })
}

/// In 10⁻⁹ dollars.
fn dollars(text: &str) -> Result<u64, String> {
    let allowed = "dollars, from 0.000001 to 1000000";
    let dollars: Option<f64> = text.parse().ok();
    dollars.and_then(nano_usd).ok_or_else(|| allowed.to_owned())
}

fn refused(context: &Context, request: &StartRunRequest, error: CliError) -> CliError {
    if error.reason != "RUN_ACTIVE" {
        return not_found(context, error);
    }
    let resume = resume_command(context, &request.session);
    let cancel = command(context, &format!("cancel {}", request.session));
    error.hint(format!("go on with it: {resume}\nor end it: {cancel}"))
}

fn new_id(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_time_names_the_least_and_the_longest() {
        let wrong = "a whole number with a unit, from 1s to 3650d".to_owned();
        for text in ["1ms", "0s", "3651d", "soon", ""] {
            assert_eq!(keep(text), Err(wrong.clone()), "{text}");
        }
        assert_eq!(keep("3650d"), Ok(10 * YEAR));
        let wrong = "a whole number with a unit, from 1ms to 365d".to_owned();
        assert_eq!(active("366d"), Err(wrong));
        assert_eq!(active("1ms"), Ok(Duration::from_millis(1)));
    }
}
