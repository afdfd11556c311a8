//! `cairn hook put`: services are stored as hooks.

use super::request_id;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::{HookSettings, hooks};
use crate::ui::out;
use crate::ui::text::command;
use cairn_boot::{Checks, Layers, Settings};
use cairn_hooks::OnError;
use cairn_proto::api::{HookDefinition, HookOnError, HookPatterns, PutHookRequest};
use cairn_proto::event::HookPoint;
use cairn_rpc::text::escape;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{self, Read as _, stdin};
use std::path::{Path, PathBuf};

/// Most bytes of standard input: as many as a file may have.
const MOST_BYTES: u64 = 1024 * 1024;
const INPUT: &str = "standard input";

/// Reason of the services: no pattern of the operator matches the address.
const ADDRESS_NOT_ALLOWED: &str = "ADDRESS_NOT_ALLOWED";

/// The arguments of `cairn hook put`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file has a table [[hooks]] for each hook, as in cairn.toml, and each has a url: programs come from the
settings of the operator alone. The operator says in serve.hook_addresses which addresses are allowed.

A change counts for the next run or turn. A run that asks a hook which was replaced waits for a person.

With --json one object for each hook: name, version.

Examples:
  cairn hook put hooks.toml
  render-hooks | cairn hook put -")]
pub(super) struct Args {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A file with hooks.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct File {
    hooks: Vec<HookSettings>,
}

impl Settings for File {
    fn check(&self, checks: &mut Checks) {
        hooks::check("hooks", &self.hooks, checks);
        for (index, hook) in self.hooks.iter().enumerate() {
            let url = format!("hooks[{index}].url");
            let allowed = "the address of a service, such as https://hooks.example.org:8443";
            checks.require(hook.url.is_some(), &url, "is missing", allowed);
        }
    }
}

/// Stores the hooks of the file, one after the other.
///
/// # Errors
/// Every fault of the file; an address that the operator does not allow; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let hooks = read(args.file).await?;
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let stored = put_all(&mut client, hooks, context).await;
    client.finish().await;
    stored
}

/// The hooks of the file, or with `-` those of standard input.
async fn read(file: PathBuf) -> Result<Vec<HookSettings>, CliError> {
    let name = match file.as_os_str() == "-" {
        true => INPUT.to_owned(),
        false => file.display().to_string(),
    };
    let layers = tokio::task::spawn_blocking(move || layers(&file)).await;
    let layers = layers.map_err(|error| CliError::chain(&error))?;
    let layers =
        layers.map_err(|error| CliError::usage(format!("{INPUT} cannot be read: {error}")))?;
    hooks_of(layers, &name)
}

fn layers(file: &Path) -> io::Result<Layers> {
    if file.as_os_str() != "-" {
        return Ok(Layers::new().file(file));
    }
    let mut text = String::new();
    let read = stdin().take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > MOST_BYTES {
        let problem = format!("it has more than {MOST_BYTES} bytes");
        return Err(io::Error::other(problem));
    }
    Ok(Layers::new().text(INPUT, &text))
}

/// The hooks of a file that is called `name`: at least one.
fn hooks_of(layers: Layers, name: &str) -> Result<Vec<HookSettings>, CliError> {
    let file = layers.load::<File>();
    let file = file.map_err(|faults| CliError::usage(faults.to_string()))?;
    match file.config.hooks.is_empty() {
        true => Err(CliError::usage(format!("{name} has no hooks"))
            .hint("give each hook a table [[hooks]] with name, points and url")),
        false => Ok(file.config.hooks),
    }
}

async fn put_all(
    client: &mut Client<'_>,
    hooks: Vec<HookSettings>,
    context: &Context,
) -> Result<(), CliError> {
    for hook in hooks {
        let name = hook.name.clone();
        let request = PutHookRequest {
            request_id: request_id(),
            hook: Some(definition(hook)),
            expected_version: None,
        };
        let put = client.persist_hooks(|mut hooks| {
            let request = request.clone();
            async move { hooks.put_hook(request).await }
        });
        let put = put.await.map_err(|error| match &*error.reason {
            ADDRESS_NOT_ALLOWED => error.hint(format!(
                "the operator allows addresses with serve.hook_addresses; see: {}",
                command(context, "config")
            )),
            _ => error,
        })?;
        let version = put.hook.unwrap_or_default().version;
        match context.json {
            true => out::json(&json!({"name": name, "version": version}))?,
            false => out::line(&format!(
                "hook {} is stored, version {version}",
                escape(&name)
            ))?,
        }
    }
    Ok(())
}

/// In the contract.
fn definition(hook: HookSettings) -> HookDefinition {
    let points = hook.points.into_iter();
    let on_error = match hook.on_error {
        None => HookOnError::Unspecified,
        Some(OnError::Block) => HookOnError::Block,
        Some(OnError::Proceed) => HookOnError::Proceed,
    };
    // A time of the settings is at most a minute.
    let timeout = prost_types::Duration {
        seconds: i64::try_from(hook.timeout.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(hook.timeout.subsec_nanos()).unwrap_or_default(),
    };
    HookDefinition {
        name: hook.name,
        points: points.map(|point| HookPoint::from(point).into()).collect(),
        agents: hook.agents.map(|patterns| HookPatterns { patterns }),
        tools: hook.tools,
        url: hook.url.unwrap_or_default(),
        timeout: Some(timeout),
        on_error: on_error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> Result<Vec<HookSettings>, String> {
        let layers = Layers::new().text("hooks.toml", text);
        hooks_of(layers, "hooks.toml").map_err(|error| error.message)
    }

    #[test]
    fn a_file_has_hooks_as_the_settings_have_them() {
        let text = "[[hooks]]\nname = 'audit'\npoints = ['OnRunEnd']\nagents = []\n\
                    url = 'https://h.example:1'\ntimeout = '1500ms'\n";
        let mut hooks = of_text(text).unwrap();
        let definition = definition(hooks.remove(0));
        assert_eq!(definition.points, [i32::from(HookPoint::OnRunEnd)]);
        assert_eq!(definition.agents, Some(HookPatterns::default()));
        let timeout = definition.timeout.unwrap();
        assert_eq!((timeout.seconds, timeout.nanos), (1, 500_000_000));
        assert_eq!(definition.on_error(), HookOnError::Unspecified);
    }

    #[test]
    fn only_services_can_be_stored() {
        for (text, fault) in [
            ("", "hooks.toml has no hooks"),
            (
                "[[hooks]]\nname = 'a'\npoints = ['OnRunEnd']\ncommand = ['x']\n",
                "hooks[0].url is missing",
            ),
            ("[hook]\n", "hook is not a setting, did you mean hooks?"),
        ] {
            let error = of_text(text).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_has_that_fault_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hooks.toml");
        let error = hooks_of(layers(&path).unwrap(), "hooks.toml").unwrap_err();
        let said = error.message.matches("hooks.toml").count();
        assert_eq!(said, 1, "{error}");
        assert!(error.message.contains("has a fault"), "{error}");
        assert!(error.message.contains("cannot be read"), "{error}");
    }
}
