//! `cairn pool put`: a resource is registered.

use super::request_id;
use super::show::read;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::commands::pairs::{by_name, pair};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::text::command;
use cairn_engine::pool::{EXECUTOR, MCP_SERVER, Needed};
use cairn_proto::api::{Pool, PutResourceRequest, ResourceCapability};
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
    pair(text, "a name, = and a value, such as rack=7")
}

/// Registers the resource.
///
/// # Errors
/// A field that is refused; no executor of the id; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let request = PutResourceRequest {
        request_id: request_id(),
        id: args.id,
        kind: args.kind,
        capabilities: args.capability,
        labels: by_name("--label", args.label)?,
        slots: args.slots,
        expected_version: None,
    };
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let put = put(&mut client, &request).await;
    client.finish().await;
    let (version, live) = put?;
    if context.json {
        return out::json(&json!({"id": request.id, "version": version}));
    }
    let id = escape(&request.id);
    out::line(&format!("resource {id} is registered, version {version}"))?;
    match note(&request, live.as_deref()) {
        Some(note) => out::line(&note),
        None => Ok(()),
    }
}

/// Returns the version of the registration, and the kind of the executor or the server that has the id.
async fn put(
    client: &mut Client<'_>,
    request: &PutResourceRequest,
) -> Result<(u64, Option<String>), CliError> {
    let live = live_kind(&read(client).await?, &request.id);
    if request.kind == EXECUTOR && live.is_none() {
        return Err(no_executor(client.context(), &request.id));
    }
    let put = client.persist_pool(|mut pool| {
        let request = request.clone();
        async move { pool.put_resource(request).await }
    });
    let put = put.await;
    let flags = [
        ("kind", "--kind"),
        ("capabilities", "--capability"),
        ("labels", "--label"),
        ("slots", "--slots"),
    ];
    let put = put.map_err(|error| error.naming(&flags))?;
    Ok((put.version, live))
}

/// The kind of what joined the pool by itself with this id.
fn live_kind(pool: &Pool, id: &str) -> Option<String> {
    let mut live = pool.resources.iter();
    let found = live.find(|it| it.id == id && [EXECUTOR, MCP_SERVER].contains(&&*it.kind))?;
    Some(found.kind.clone())
}

/// Nothing would show what is registered of an executor that is not there.
fn no_executor(context: &Context, id: &str) -> CliError {
    let pool = command(context, "pool");
    CliError::usage(format!("no executor of the pool has the id {id}")).hint(format!(
        "allowed: a kind of your own, or the id of an executor; see the ids with: {pool}"
    ))
}

/// What of the registration does not count now.
fn note(request: &PutResourceRequest, live: Option<&str>) -> Option<String> {
    match live {
        Some(kind) => Some(format!(
            "it is a resource of the kind {kind}: --kind and --slots do not count"
        )),
        None if request.kind == MCP_SERVER => {
            Some("it counts once an MCP server of this id is in the pool".to_owned())
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read() {
        let read = |text: &str| capability(text).map(|it| (it.name, it.level));
        assert_eq!(read("gpu"), Ok(("gpu".to_owned(), 0)));
        assert_eq!(read("web_search>=5"), Ok(("web_search".to_owned(), 5)));
        for text in ["", "GPU", "gpu>=", "gpu>=many", "gpu>=1000001", ">=5"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_does_not_count_is_named() {
        let pool = Pool {
            resources: vec![cairn_proto::api::Resource {
                id: "general".to_owned(),
                kind: EXECUTOR.to_owned(),
                ..cairn_proto::api::Resource::default()
            }],
            ..Pool::default()
        };
        let request = |id: &str, kind: &str| PutResourceRequest {
            id: id.to_owned(),
            kind: kind.to_owned(),
            ..PutResourceRequest::default()
        };
        let noted = |id, kind| note(&request(id, kind), live_kind(&pool, id).as_deref());
        let ignored = "it is a resource of the kind executor: --kind and --slots do not count";
        assert_eq!(noted("general", "gpu").as_deref(), Some(ignored));
        assert!(noted("github", MCP_SERVER).is_some());
        assert_eq!(noted("gpu-1", "gpu"), None);
    }
}
