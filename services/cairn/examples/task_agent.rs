//! A task by both of its doors. First a goal, which the offline model plans by itself over a
//! folder with notes. Then a plan from outside, read by a parser of one's own: one step a line.
//! The steps are shown with their state and summary as the events come.
//!
//! `cargo run -q -p cairn --example task_agent`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::Result;
use cairn_engine::plan::{PlanDraft, StepDraft, ToolInvocation};
use cairn_planner::{PlanParseError, PlanParser, read_plan};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::{PlannedStep, StepStatus};
use common::{Client, client, goal, node, offline, plan, short, start, watch, write_files};

/// Reads a plan in which every line is a step. `title: description` is for the model, and
/// `!tool {"arguments": …}` is one call of a tool.
#[derive(Debug)]
struct LineParser;

#[async_trait::async_trait]
impl PlanParser for LineParser {
    async fn parse(&self, text: &str) -> Result<PlanDraft, PlanParseError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let step = |line: &str| match line.strip_prefix('!') {
            Some(call) => {
                let (name, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
                StepDraft {
                    tool: Some(ToolInvocation {
                        name: name.to_owned(),
                        arguments: arguments.to_owned(),
                    }),
                    ..StepDraft::default()
                }
            }
            None => {
                let (title, description) = line.split_once(": ").unwrap_or(("", line));
                StepDraft {
                    title: title.to_owned(),
                    description: description.to_owned(),
                    ..StepDraft::default()
                }
            }
        };
        Ok(PlanDraft {
            steps: lines.map(step).collect(),
            ..PlanDraft::default()
        })
    }
}

const PLAN: &str = r#"
    !list_files {"path": "."}
    !search_files {"pattern": "TODO"}
    !write_file {"path": "cairn-out/done.md", "content": "All seen.\n"}
"#;

const NOTES: [(&str, &str); 3] = [
    (
        "kitchen.md",
        "# Kitchen\n\nThe oven is clean.\nTODO: buy yeast\n",
    ),
    (
        "garden/beds.md",
        "# Beds\n\nTODO: sow the peas\nThe roses are cut.\n",
    ),
    ("garden/tools.md", "# Tools\n\nTODO: oil the shears\n"),
];

/// Starts a run and tells what happens until it ends; its steps as they are then.
async fn follow(
    client: &mut Client,
    request_id: &str,
    run: wire::StartRun,
) -> Result<(Vec<PlannedStep>, usize)> {
    let started = start(client, "", request_id, run).await?;
    let mut completions = 0;
    watch(client, &started.session, started.seq - 1, |_, kind| {
        match kind {
            Kind::PlanApplied(applied) => {
                let steps = applied.plan.iter().flat_map(|plan| &plan.steps);
                println!("  plan, revision {}", applied.revision);
                for (at, step) in steps.enumerate() {
                    println!("    {}. {}", at + 1, name(step));
                }
            }
            Kind::StepStarted(step) => println!("  → step {}", number(step.attempt.as_ref())),
            Kind::StepCompleted(step) => {
                completions += 1;
                let summary = short(&step.summary, 80);
                println!("  ✓ step {}: {summary}", number(step.attempt.as_ref()));
            }
            Kind::StepFailed(step) => println!("  ✗ step {}", number(step.attempt.as_ref())),
            Kind::RunCompleted(run) => println!("  answer: {}", short(&run.answer, 100)),
            Kind::RunFailed(run) => println!("  failed: {:?}", run.failure),
            _ => {}
        }
        false
    })
    .await?;
    Ok((plan(client, &started.session).await?, completions))
}

fn name(step: &wire::PlanStep) -> String {
    match &step.tool {
        Some(tool) => format!("{} {}", tool.name, short(&tool.arguments_json, 60)),
        None => format!("{} – {}", step.title, short(&step.description, 60)),
    }
}

fn number(attempt: Option<&wire::AttemptRef>) -> u32 {
    attempt.map_or(0, |attempt| attempt.step)
}

fn check(steps: &[PlannedStep], completions: usize) {
    assert!(!steps.is_empty());
    assert_eq!(
        completions,
        steps.len(),
        "every step told that it completed"
    );
    for step in steps {
        assert_eq!(step.status(), StepStatus::Completed, "step {}", step.number);
        assert!(
            !step.summary.is_empty(),
            "step {} has a summary",
            step.number
        );
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_files(folder.path(), &NOTES)?;
    let node = node(folder.path(), offline(), Vec::new()).await?;
    let mut client = client(&node);

    println!("── a goal, planned by the model ──");
    let question = "Which files mention \"TODO\"?";
    println!("  {question}");
    let (steps, completions) = follow(&mut client, "goal", goal(question)).await?;
    check(&steps, completions);

    println!("\n── a plan from outside, one step a line ──");
    let draft = read_plan(&LineParser, PLAN).await?;
    let run = wire::StartRun {
        plan: Some(draft.into()),
        ..wire::StartRun::default()
    };
    let (steps, completions) = follow(&mut client, "plan", run).await?;
    check(&steps, completions);
    assert_eq!(steps.len(), 3, "nothing was planned beside what was given");
    assert!(steps[1].summary.starts_with("garden/beds.md:3:"));
    let written = std::fs::read_to_string(folder.path().join("cairn-out/done.md"))?;
    assert_eq!(written, "All seen.\n");

    println!("\n── what is no plan is told why ──");
    for (text, reason) in [("\n \n", "NoSteps"), ("!list_files {oops", "BadArguments")] {
        let Err(error) = read_plan(&LineParser, text).await else {
            anyhow::bail!("{text:?} was taken for a plan");
        };
        println!("  {}: {error}", error.reason());
        assert_eq!(error.reason(), reason);
    }
    node.drain().await;
    Ok(())
}
