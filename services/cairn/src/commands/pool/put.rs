//! `cairn pool put`: a resource is registered.

use super::request_id;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_engine::pool::Needed;
use cairn_proto::api::{PutResourceRequest, ResourceCapability};
use cairn_rpc::text::escape;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

/// The arguments of `cairn pool put`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With the id of an executor or an MCP server, the capabilities and labels count in addition to its own. With
another id it is a resource by itself: a step that needs one of its capabilities takes one of its slots,
beside the slot of an executor. What was registered under the id before is replaced.

With --json one object: id, version.

Examples:
  cairn pool put gpu-1 --kind gpu --capability gpu --slots 2
  cairn pool put executor-eu --kind executor --capability region:eu --label rack=7
  cairn pool put bing --kind search --capability 'web_search>=5'")]
pub(super) struct Args {
    /// The resource: 1 to 64 letters, digits, _, -, . and :
    #[arg(value_name = "ID")]
    id: String,
    /// Its kind, such as gpu; executor or mcp_server for one that joins the pool by itself
    #[arg(long, value_name = "KIND", value_parser = NonEmptyStringValueParser::new())]
    kind: String,
    /// A capability, with its level; may be repeated
    #[arg(long, value_name = "NAME[>=LEVEL]", value_parser = capability)]
    capability: Vec<ResourceCapability>,
    /// Steps that may use it at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// A note; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

fn capability(text: &str) -> Result<ResourceCapability, String> {
    let allowed = || {
        "a name of 1 to 64 lower-case letters, digits, _, -, . and :, and >= with a level from 1 to 1000000 or \
         without one"
            .to_owned()
    };
    let needed = Needed::parse(text).map_err(|_| allowed())?;
    Ok(ResourceCapability {
        name: needed.capability,
        level: needed.level,
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a name, = and a value, such as rack=7".to_owned()),
    }
}

/// Registers the resource.
///
/// # Errors
/// A field that is refused; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let request = PutResourceRequest {
        request_id: request_id(),
        id: args.id,
        kind: args.kind,
        capabilities: args.capability,
        labels: args.label.into_iter().collect(),
        slots: args.slots,
        expected_version: None,
    };
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let put = client.persist_pool(|mut pool| {
        let request = request.clone();
        async move { pool.put_resource(request).await }
    });
    let put = put.await;
    client.finish().await;
    let flags = [
        ("kind", "--kind"),
        ("capabilities", "--capability"),
        ("labels", "--label"),
        ("slots", "--slots"),
    ];
    let version = put.map_err(|error| error.naming(&flags))?.version;
    if context.json {
        return out::json(&json!({"id": request.id, "version": version}));
    }
    let id = escape(&request.id);
    out::line(&format!("resource {id} is registered, version {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_labels_are_read() {
        let read = |text: &str| capability(text).map(|it| (it.name, it.level));
        assert_eq!(read("gpu"), Ok(("gpu".to_owned(), 0)));
        assert_eq!(read("web_search>=5"), Ok(("web_search".to_owned(), 5)));
        for text in ["", "GPU", "gpu>=", "gpu>=many", "gpu>=1000001", ">=5"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(label("rack=7=b"), Ok(("rack".to_owned(), "7=b".to_owned())));
        assert!(label("rack").is_err() && label("=7").is_err());
    }
}
