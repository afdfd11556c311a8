//! `cairn plan show`: the plan in force.

use super::super::hint;
use super::{as_of, no_plan};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::describe::step_lines;
use crate::ui::event_json::order;
use crate::ui::event_line::step_facts;
use crate::ui::out;
use crate::ui::plan_document::document;
use crate::ui::plans::size_text;
use crate::ui::style::Style;
use cairn_proto::orchestrator::GetPlanResponse;
use std::collections::HashMap;
use std::process::ExitCode;

/// What can be said to `cairn plan show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json the plan as cairn run --plan and cairn plan edit --file read it; the states of the steps
are in cairn show --json.

Examples:
  cairn plan show
  cairn plan show s-7f3k --json >plan.json")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the run; 0 for the latest one with a plan
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: u32,
    /// As it was after this event; 0 for now
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    at: u64,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    let number = match args.run {
        0 => newest_plan(&client, &session, args.at).await?,
        number => number,
    };
    let plan = as_of(&mut client, &session, number, args.at).await?;
    if plan.steps.is_empty() {
        return Err(no_plan(plan.run));
    }
    if context.json {
        out::json(&document(&plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::new(context.color);
    let size = size_text(plan.steps.len(), &order(plan.order));
    let title = format!(
        "plan of {session}, run {}, revision {} ({size})",
        plan.run, plan.revision
    );
    out::line(&style.strong(&title))?;
    let numbers = numbers(&plan);
    let lines = plan.steps.iter().flat_map(|step| {
        let facts = step.step.iter().flat_map(|it| step_facts(it, &numbers));
        let facts = facts.map(|fact| format!("       {}", style.dim(&fact)));
        let lines = step_lines(step, style);
        // What it is, before what came of it.
        let (name, rest) = lines.split_at(1);
        [name.to_vec(), facts.collect(), rest.to_vec()].concat()
    });
    out::line(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The number of each step by its id.
fn numbers(plan: &GetPlanResponse) -> HashMap<&str, u32> {
    let steps = plan.steps.iter();
    let named =
        steps.filter_map(|planned| Some((planned.step.as_ref()?.id.as_str(), planned.number)));
    named.collect()
}

/// The latest run with a plan, which turns of a conversation do not have; 0 if there is none, or for an
/// earlier state, which may have fewer runs.
async fn newest_plan(client: &Client<'_>, session: &str, at: u64) -> Result<u32, CliError> {
    if at > 0 {
        return Ok(0);
    }
    let planned = hint::latest_planned(client, session).await?;
    Ok(planned.map_or(0, |run| run.number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::PlanStep;
    use cairn_proto::orchestrator::PlannedStep;

    #[test]
    fn a_step_comes_after_the_numbers_that_are_shown() {
        let planned = |number, id: &str, after: &[&str]| PlannedStep {
            number,
            step: Some(PlanStep {
                id: id.to_owned(),
                title: "look".to_owned(),
                depends_on: after.iter().map(|&id| id.to_owned()).collect(),
                ..PlanStep::default()
            }),
            ..PlannedStep::default()
        };
        // As after a revision: the third step is new, and the first of the plan.
        let plan = GetPlanResponse {
            steps: vec![
                planned(3, "1", &[]),
                planned(1, "2", &["1"]),
                planned(4, "end", &["1", "2"]),
            ],
            ..GetPlanResponse::default()
        };
        let numbers = numbers(&plan);
        let steps = plan
            .steps
            .iter()
            .filter_map(|planned| planned.step.as_ref());
        let facts = steps.flat_map(|step| step_facts(step, &numbers));
        assert_eq!(facts.collect::<Vec<_>>(), ["after 3", "after 3, 1"]);
    }
}
