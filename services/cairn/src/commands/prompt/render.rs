//! `cairn prompt render`.

use super::{PROMPT_NOT_FOUND, not_found};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::commands::pairs::{by_name, pair};
use crate::context::Context;
use crate::error::{CliError, USAGE};
use crate::ui::out;
use cairn_proto::api::RenderPromptRequest;
use serde_json::json;

/// Reason of the services: a variable has no value, or the text cannot be read.
const BAD_PROMPT: &str = "BAD_PROMPT";

/// The arguments of `cairn prompt render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A value of --var comes before that of [prompts.variables]. Where Cairn itself uses a prompt, these have a
variable of their own: problem in plan_repair and code_repair, words in summary. The prompt of an agent has no
variables.

With --json one object: text.

Examples:
  cairn prompt render planning
  cairn prompt render summary --var words=250
  cairn prompt render greeting --var name=Ada --var team=Blue")]
pub(super) struct Args {
    /// The prompt; agent:NAME for that of a stored agent
    #[arg(value_name = "NAME")]
    name: String,
    /// The value of a variable; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    var: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    pair(text, "a name, = and a value, such as team=Blue")
}

/// Shows the text with the values of its variables.
///
/// # Errors
/// A variable is given twice or has no value; no such prompt; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let request = RenderPromptRequest {
        name: args.name,
        variables: by_name("--var", args.var)?,
    };
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let rendered = client.persist_agents(|mut agents| {
        let request = request.clone();
        async move { agents.render_prompt(request).await }
    });
    let rendered = rendered.await;
    client.finish().await;
    let text = rendered.map_err(|error| explained(context, error))?.text;
    match context.json {
        true => out::json(&json!({ "text": text })),
        false => out::text(&text),
    }
}

/// What helps about an error.
fn explained(context: &Context, error: CliError) -> CliError {
    match error.reason.as_str() {
        PROMPT_NOT_FOUND => not_found(context, error),
        BAD_PROMPT if error.hint.starts_with("variables ") => error
            .hint("give it a value with --var NAME=VALUE, or in [prompts.variables] of cairn.toml")
            .code(USAGE),
        // The message says all that the fields say.
        BAD_PROMPT => error.hint("").code(USAGE),
        _ => error.naming(&[("variables", "--var")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_rpc::{ErrorKind, RpcError};

    #[test]
    fn an_error_of_the_service_is_a_mistake_of_the_command() {
        let error = RpcError::new(ErrorKind::InvalidArgument, "the prompt needs it")
            .and_invalid("variables", "has no \"name\"")
            .reason(BAD_PROMPT);
        let error = CliError::from(error);
        assert_eq!((error.reason.as_str(), error.code), (BAD_PROMPT, USAGE));
        assert_eq!(error.hint, "variables has no \"name\"");
    }
}
