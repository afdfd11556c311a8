//! `cairn tree`: what happened in a run, goal by goal.

use crate::attach::Access;
use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::{AT, CliError, INTERRUPTED};
use crate::ui::style::Style;
use crate::ui::tree::{lines, node_json};
use crate::ui::{file, out, text};
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::{GetTreeRequest, GetTreeResponse, TreeView};
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be said to `cairn tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Marks: ✓ done, → being done, ○ to be done, ✗ failed, - left out, · thought, = result, » summary.

With --json (or --view nodes) one node a line: id, parent_id, kind (goal, thought, action, result,
evaluation, response), status (planned, in_progress, completed, failed, skipped), sequence,
description, summary, data, duration_ms, tokens, cost_nano_usd, created.

Examples:
  cairn tree
  cairn tree s-7f3k --run 1 --view todo
  cairn tree --at 40
  cairn tree --view json --output tree.json
  cairn tree --live                 keeps .trace/tree.txt and .trace/tree.json up to date")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the run; 0 for the latest
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: u32,
    /// As it was after this event; 0 for now
    #[arg(long, value_name = "SEQ", default_value_t = 0, conflicts_with = "live")]
    at: u64,
    /// What is shown [default: a short tree]
    #[arg(long, value_enum)]
    view: Option<View>,
    /// Where to write it [default or -: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the file anew after every change, until the run ends; without --output the views
    /// text and json to .trace
    #[arg(long)]
    live: bool,
}

/// A way to show the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    /// All nodes with all that is known of them, as text
    Text,
    /// The same as a JSON document
    Json,
    /// Goals and their state only
    Todo,
    /// Goals, key results and summaries: what a model is shown in place of older messages
    History,
    /// The nodes, each as a JSON object on a line of its own
    Nodes,
}

impl View {
    const fn of_contract(self) -> TreeView {
        match self {
            Self::Text => TreeView::Text,
            Self::Json => TreeView::Json,
            Self::Todo => TreeView::Todo,
            Self::History => TreeView::History,
            Self::Nodes => TreeView::Nodes,
        }
    }
}

/// A view and the file that it goes to.
type Target = (Option<View>, PathBuf);

/// Shows the tree.
///
/// # Errors
/// No such session or run, or the file cannot be written.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    let view = match args.view {
        None if context.json => Some(View::Nodes),
        view => view,
    };
    if args.live {
        let targets = match args.output {
            Some(path) if file::named(Some(&path)).is_none() => {
                return Err(
                    CliError::usage("--live writes a file, and - is standard output")
                        .hint("name a file with --output, or leave out --live"),
                );
            }
            Some(path) => vec![(view, path)],
            None => vec![
                (Some(View::Text), PathBuf::from(".trace/tree.txt")),
                (Some(View::Json), PathBuf::from(".trace/tree.json")),
            ],
        };
        return keep(&mut client, &session, args.run, &targets).await;
    }
    let output = file::named(args.output.as_deref());
    let style = Style::new(context.color && output.is_none());
    let tree = fetch(&mut client, &session, (args.run, args.at), view, style).await?;
    match output {
        Some(path) => file::write(context, path, &tree)?,
        None => out::line(&tree)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(
    client: &mut Client<'_>,
    session: &str,
    (run, at_seq): (u32, u64),
    view: Option<View>,
    style: Style,
) -> Result<String, CliError> {
    let request = GetTreeRequest {
        session: session.to_owned(),
        run,
        view: view.map_or(TreeView::Nodes, View::of_contract).into(),
        at_seq,
    };
    let answer = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.get_tree(request).await }
        })
        .await
        .map_err(|error| error.naming(&AT))?;
    Ok(shown(view, &answer, style))
}

fn shown(view: Option<View>, answer: &GetTreeResponse, style: Style) -> String {
    match view {
        None if answer.nodes.is_empty() => "there is no plan yet".to_owned(),
        None => lines(&answer.nodes, style).join("\n"),
        Some(View::Nodes) => {
            let nodes = answer.nodes.iter().map(node_json);
            let nodes: Vec<String> = nodes.map(|node| text::json(&node)).collect();
            nodes.join("\n")
        }
        Some(View::Json) => text::json_escaped(&answer.text),
        Some(View::Text | View::Todo | View::History) => text::block(&answer.text),
    }
}

/// Writes the files anew after every change, until the run ends.
async fn keep(
    client: &mut Client<'_>,
    session: &str,
    run: u32,
    targets: &[Target],
) -> Result<ExitCode, CliError> {
    let context = client.context();
    let mut is_active = false;
    let mut is_caught_up = false;
    let mut watch = client.watch(session, 0);
    while let Some(next) = watch.next().await? {
        match next {
            Watched::CaughtUp => is_caught_up = true,
            Watched::Delta(_) => continue,
            Watched::Event { event, .. } => match event.kind {
                // Another plan opens a run that has ended.
                Some(Kind::RunStarted(_) | Kind::PlanApplied(_)) => is_active = true,
                Some(Kind::RunCompleted(_) | Kind::RunFailed(_) | Kind::RunCancelled(_)) => {
                    is_active = false;
                }
                _ => {}
            },
        }
        // What is long past is not written event by event.
        if !is_caught_up {
            continue;
        }
        for (view, path) in targets {
            let client = watch.client_mut();
            let tree = fetch(client, session, (run, 0), *view, Style::new(false)).await?;
            file::replace(path, &tree)?;
        }
        if !is_active {
            for (_, path) in targets {
                file::written(context, path, "the run has ended")?;
            }
            return Ok(ExitCode::SUCCESS);
        }
    }
    Ok(ExitCode::from(INTERRUPTED))
}
