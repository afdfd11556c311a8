//! `cairn prompt`: the texts that models are given are listed, shown, and rendered with values of their variables.

mod list;
mod render;
mod show;

use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use clap::Subcommand;
use std::process::ExitCode;

/// The arguments of `cairn prompt`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A prompt is a text that models are given, with variables such as {name}. To replace a built-in prompt, put a
file with its name into the folder prompts beside cairn.toml, such as prompts/planning.md, and confirm it with
cairn config trust. Variables have their values from [prompts.variables]. cairn config check finds prompts that
cannot be used.

Examples:
  cairn prompt list
  cairn prompt show planning > prompts/planning.md
  cairn prompt render planning
  cairn prompt render plan_repair --var problem='step 2 has no description'")]
pub struct Args {
    /// The action
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the prompts: built-in ones, those of files, and those of agents
    List,
    /// Show the text of one prompt, with its variables as they are written
    Show(show::Args),
    /// Show the text of one prompt with the values of its variables
    Render(render::Args),
}

/// Lists, shows or renders.
///
/// # Errors
/// No such prompt; a variable without a value; the services'.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action {
        Action::List => list::run(context).await?,
        Action::Show(args) => show::run(args, context).await?,
        Action::Render(args) => render::run(args, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reason of the services: there is no prompt of this name.
const PROMPT_NOT_FOUND: &str = "PROMPT_NOT_FOUND";

/// An error about a prompt that is not there, with the way to those that are.
fn not_found(context: &Context, error: CliError) -> CliError {
    let list = command(context, "prompt list");
    error.hint(format!("see the prompts with: {list}"))
}
