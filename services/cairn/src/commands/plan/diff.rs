//! `cairn plan diff`: what is different between two revisions of a plan.

use crate::attach::Access;
use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::revisions::{between, changed_json, changed_line};
use crate::ui::style::Style;
use cairn_proto::event::PlanApplied;
use cairn_proto::event::event::Kind;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn plan diff`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "cairn plan diff [OPTIONS] [SESSION] <FROM> <TO>")]
#[command(after_help = "\
Marks: + added, - removed, ↻ to be done instead of a step of the same words. Steps without a mark
are in both, with what came of them.

With --json one object: session, run, from, to, steps (number, label, change: kept, moved, added,
removed or repeated, repeats).

Examples:
  cairn plan diff 1 2
  cairn plan diff s-7f3k 1 3")]
pub(super) struct Args {
    /// The session [default: the latest], and the numbers of two revisions
    #[arg(
        value_names = ["[SESSION] FROM", "TO"],
        num_args = 2..=3,
        required = true
    )]
    what: Vec<String>,
    /// Number of the run; 0 for the latest
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: u32,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let (given, from, to) = match args.what.as_slice() {
        [session, from, to] => (Some(session.as_str()), from, to),
        [from, to] => (None, from, to),
        _ => return Err(CliError::usage("name two revisions of a plan")),
    };
    let (from, to) = (revision(from)?, revision(to)?);
    let mut client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(given).await?;
    let (run, plans) = plans(&mut client, &session, args.run).await?;
    let (one, other) = (find(&plans, run, from)?, find(&plans, run, to)?);
    let steps = between(one, other);
    if context.json {
        let steps: Vec<_> = steps.iter().map(changed_json).collect();
        out::json(&json!({
            "session": session,
            "run": run,
            "from": from,
            "to": to,
            "steps": steps,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::new(context.color);
    let title = format!("run {run} of {session}, revision {from} → {to}");
    out::line(&style.strong(&title))?;
    let lines: Vec<_> = steps.iter().map(|step| changed_line(step, style)).collect();
    out::line(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn revision(text: &str) -> Result<u32, CliError> {
    text.parse().map_err(|_| {
        CliError::usage(format!("{text} is no revision")).hint("a revision is a number, from 1")
    })
}

fn find(plans: &[PlanApplied], run: u32, revision: u32) -> Result<&PlanApplied, CliError> {
    let found = plans.iter().find(|plan| plan.revision == revision);
    found.ok_or_else(|| {
        let there = match plans.len() {
            0 => "it has no plan yet".to_owned(),
            1 => "it has revision 1 only".to_owned(),
            last => format!("it has the revisions 1 to {last}"),
        };
        CliError::new(format!("run {run} has no revision {revision}")).hint(there)
    })
}

/// All plans of a run that there have been until now, and its number.
async fn plans(
    client: &mut Client<'_>,
    session: &str,
    run: u32,
) -> Result<(u32, Vec<PlanApplied>), CliError> {
    let (mut latest, mut plans) = (0, Vec::new());
    let mut events = client.watch(session, 0);
    while let Some(next) = events.next().await? {
        match next {
            Watched::CaughtUp => break,
            Watched::Delta(_) => {}
            Watched::Event { event, .. } => match event.kind {
                Some(Kind::RunStarted(started)) => latest = started.run,
                Some(Kind::PlanApplied(plan)) => plans.push(plan),
                _ => {}
            },
        }
    }
    let number = if run == 0 { latest } else { run };
    if number == 0 || number > latest {
        return Err(
            CliError::new(format!("session {session} has no run {number}"))
                .hint(format!("it has {latest} runs")),
        );
    }
    plans.retain(|plan| plan.run == number);
    Ok((number, plans))
}
