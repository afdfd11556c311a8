//! `cairn prompt show`.

use super::{list, not_found};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_rpc::text::escape;

/// The arguments of `cairn prompt show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one object: name, source, text, variables, problem (why the text cannot be used; else empty).

Examples:
  cairn prompt show planning
  cairn prompt show agent:reviewer")]
pub(super) struct Args {
    /// The prompt; agent:NAME for that of a stored agent
    #[arg(value_name = "NAME")]
    name: String,
}

/// Shows a prompt.
///
/// # Errors
/// No such prompt; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let prompts = list::all(context).await?;
    let found = prompts.iter().find(|prompt| prompt.name == args.name);
    let Some(prompt) = found else {
        let message = format!("prompt \"{}\" does not exist", escape(&args.name));
        return Err(not_found(context, CliError::new(message)));
    };
    match context.json {
        true => out::json(&list::to_json(prompt)),
        false => out::text(&prompt.text),
    }
}
