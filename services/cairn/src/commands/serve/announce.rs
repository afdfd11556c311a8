//! The first lines of the process: where it serves.

use super::Args;
use super::admission::Admission;
use super::listeners::{Listeners, url};
use super::metrics::Metrics;
use crate::context::Context;
use crate::error::CliError;
use crate::serving::socket;
use crate::ui::out;
use cairn_rpc::text::escape;
use serde_json::{Map, Value};
use std::path::Path;

/// Prints where the services are. A process that holds a store of its own names the socket and the
/// store; any other names its services.
pub(super) fn announce(
    args: &Args,
    context: &Context,
    listeners: &Listeners,
    admission: &Admission,
    metrics: Option<&Metrics>,
) -> Result<(), CliError> {
    let public = url(listeners.public.as_ref())?;
    let internal = url(listeners.internal.as_ref())?;
    let metrics = metrics.map(Metrics::url);
    let services: Vec<&str> = args.here().iter().map(|service| service.name()).collect();
    let holds = args.holds_a_store(context);
    let store = context
        .config()
        .store
        .path
        .as_deref()
        .unwrap_or(Path::new(""));
    let (socket, store) = (
        socket::path(store).display().to_string(),
        store.display().to_string(),
    );
    let model = context.config().default_model();
    if context.json {
        let of_holder = |value: String| holds.then(|| value.into());
        let fields: [(&str, Option<Value>); 8] = [
            ("services", (!holds).then(|| services.into())),
            ("listen", public.map(Value::from)),
            ("internal", internal.map(Value::from)),
            ("socket", of_holder(socket)),
            ("store", of_holder(store)),
            ("model", of_holder(model.to_owned())),
            ("metrics", metrics.map(Value::from)),
            ("token_file", Some(admission.token_file().into())),
        ];
        let fields = fields.into_iter();
        let line: Map<_, _> = fields
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        return out::json(&line.into());
    }
    let clients = if holds { "" } else { " for clients" };
    let mut places: Vec<String> = Vec::new();
    places.extend(public.map(|url| format!("{url}{clients}")));
    places.extend(internal.map(|url| format!("{url} for Cairn's services")));
    places.extend(holds.then(|| format!("unix:{socket}")));
    let services = if holds {
        String::new()
    } else {
        services.join(", ") + ": "
    };
    out::line(&format!("{services}listening on {}", places.join(" and ")))?;
    admission.announce()?;
    if let Some(metrics) = metrics {
        out::line(&format!("metrics on {metrics}"))?;
    }
    if holds {
        let workspace = context.config().workspace.path.display();
        let line = format!("store {store} · workspace {workspace} · model {model}");
        out::line(&escape(&line))?;
    }
    Ok(())
}
