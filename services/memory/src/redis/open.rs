//! Opening a store: what it is, and whether this program may work on it.

use super::address::{Endpoint, RedisUrl, TlsFiles};
use super::clocks::STEP_MS;
use super::durability::Durability;
use super::failure::{Effect, odd};
use super::format::Formats;
use super::keys::{Names, PARTITIONS};
use super::layout::{Layout, Plan};
use super::node::{Node, Trouble};
use super::options::{RedisConfig, RedisMode, RedisOptions};
use super::outage::Outage;
use super::rights::locked_out;
use super::script::Reply;
use super::survey::{Picture, Said, survey};
use crate::port::StoreError;
use redis::Pipeline;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An address is none.
    #[error(
        "{url:?} is not the address of a Redis server: it has to be redis://host:port or rediss://host:port, with user:password@ before the host if needed, percent-encoded"
    )]
    Address {
        /// The address.
        url: RedisUrl,
    },
    /// The file of certificates does not serve.
    #[error("cannot take certificates from {file:?}")]
    Certificates {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in the configuration is missing or does not go together.
    #[error("{0}")]
    Config(&'static str),
    /// No server answers, or none lets this program in.
    #[error(transparent)]
    Unavailable(StoreError),
    /// Others may reach a server, and its address has no password. Nothing was sent to it.
    #[error(
        "{server} may be reached from elsewhere, and its address has no password: a server without one gives all sessions to every client that reaches it; give it one, or set store.redis.allow_exposed"
    )]
    Exposed {
        /// The server.
        server: String,
    },
    /// A server is too old.
    #[error("{server} has version {version}, and 7.0 or later is needed")]
    Old {
        /// The server.
        server: String,
        /// Its version.
        version: String,
    },
    /// The servers' settings do not keep what was answered, and that is required.
    #[error("the store is not durable, and store.redis.require_durable asks for it: {}", reasons.join("; "))]
    NotDurable {
        /// What is in the way.
        reasons: Vec<String>,
    },
    /// The keys with this prefix are somebody else's.
    #[error("the key {key:?} is not a store of cairn: choose another prefix")]
    Foreign {
        /// The key that says what the store is.
        key: String,
    },
    /// The store was made by another version of this program.
    #[error("the store has format {found:?}, and this program knows {known}")]
    Format {
        /// The store's format.
        found: String,
        /// The formats that this program knows.
        known: Formats,
    },
    /// A thread to open the store in cannot be started.
    #[error("cannot start a thread")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
}

/// What was found out when a store was opened.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) plan: Plan,
    pub(super) layout: Layout,
    /// Names the data, as long as they live.
    pub(super) id: String,
    pub(super) names: Names,
    /// What the servers said of their settings.
    pub(super) picture: Picture,
}

/// Finds the servers and looks at the store, which is made if there is none.
pub(super) async fn open(
    config: &RedisConfig,
    options: &RedisOptions,
) -> Result<Opened, OpenError> {
    let names = Names::unopened(&config.prefix);
    let plan = plan(config, &names)?;
    let layout = plan.find(&[]).await.map_err(OpenError::Unavailable)?;
    // A store that is full for now can still be read.
    let picture = check(config, &plan, &layout, &names).await?.picture;
    let id = identify(layout.node(0), &names, options).await?;
    Ok(Opened {
        plan,
        layout,
        names: Names::new(&config.prefix, &id),
        id,
        picture,
    })
}

/// Finds the servers, checks their settings, and tests whether this user may write and publish.
pub(super) async fn examine(config: &RedisConfig) -> Result<Durability, OpenError> {
    let names = Names::unopened(&config.prefix);
    let plan = plan(config, &names)?;
    let layout = plan.find(&[]).await.map_err(OpenError::Unavailable)?;
    let found = check(config, &plan, &layout, &names).await?;
    let mut outages = found.outages;
    if outages.is_empty() {
        outages.extend(locked_out(&layout, &names).await);
    }
    match outages.is_empty() {
        true => Ok(found.picture.durability().and(found.apart)),
        false => Err(OpenError::Unavailable(StoreError::unavailable(
            outages.join("; "),
        ))),
    }
}

/// What servers are found to be when a store is opened.
struct Found {
    picture: Picture,
    /// What keeps them from taking writes for now.
    outages: Vec<String>,
    /// Two whose clocks differ.
    apart: Option<String>,
}

/// Looks at the settings of all servers.
async fn check(
    config: &RedisConfig,
    plan: &Plan,
    layout: &Layout,
    names: &Names,
) -> Result<Found, OpenError> {
    for node in layout.nodes() {
        let server = node.name();
        if node.endpoint.is_exposed() {
            return Err(OpenError::Exposed { server });
        }
    }
    let survey = survey(plan, layout, names).await;
    for Said {
        server, settings, ..
    } in survey.said.iter().filter(|it| !it.is_replica)
    {
        let settings = settings.as_ref();
        let settings = settings.map_err(|error| OpenError::Unavailable(error.clone()))?;
        if settings.is_too_old() {
            let (server, version) = (server.clone(), settings.version.clone());
            return Err(OpenError::Old { server, version });
        }
        if let Some(outage @ (Outage::Replica | Outage::Sentinel)) = settings.outage {
            let reason = format!("{server} takes no writes: {outage}");
            return Err(OpenError::Unavailable(StoreError::unavailable(reason)));
        }
    }
    let mut found = Found {
        picture: Picture::default(),
        outages: survey.outages(i64::MAX),
        apart: survey.apart(STEP_MS),
    };
    // The lookout's first look is soon, and asks those again that did not answer.
    let _ = found.picture.take_in(survey);
    match found.picture.durability() {
        Durability::Degraded { reasons } if config.require_durable => {
            Err(OpenError::NotDurable { reasons })
        }
        _ => Ok(found),
    }
}

/// How the servers are found, by the configuration.
fn plan(config: &RedisConfig, names: &Names) -> Result<Plan, OpenError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if config.prefix.is_empty() || !config.prefix.chars().all(is_plain) {
        let rule = "store.redis.prefix has to consist of letters, digits, and - _ . :";
        return Err(OpenError::Config(rule));
    }
    let files = TlsFiles {
        authorities: config.ca_file.as_deref(),
        client: config.client_certificate.as_ref(),
    };
    let endpoint = |url| {
        let endpoint = Endpoint::parse(url, files)?;
        Ok::<_, OpenError>(endpoint.allowing(config.allow_exposed))
    };
    let endpoints = config.urls.iter().map(endpoint);
    let endpoints: Vec<_> = endpoints.collect::<Result<_, _>>()?;
    let plan = match (config.mode, &endpoints[..]) {
        (_, []) => return Err(OpenError::Config("store.redis.url has to name a server")),
        (RedisMode::Standalone, [endpoint]) => Plan::standalone(endpoint.clone()),
        (RedisMode::Standalone, _) => {
            let rule = "store.redis.url has to name one server; several are for the modes \
                        sentinel and cluster";
            return Err(OpenError::Config(rule));
        }
        (RedisMode::Sentinel, [first, ..]) => {
            let Some(master) = &config.master else {
                let rule = "store.redis.master has to be the name by which sentinels know it";
                return Err(OpenError::Config(rule));
            };
            let sentinels: Vec<_> = endpoints.iter().map(Endpoint::without_database).collect();
            let template = config.master_url.as_ref().map(endpoint).transpose()?;
            let template = template.unwrap_or_else(|| first.clone());
            Plan::sentinel(&sentinels, master, template)
        }
        (RedisMode::Cluster, _) if endpoints.iter().any(|e| e.database() != 0) => {
            let rule = "store.redis.url names a database, and a cluster has none but 0";
            return Err(OpenError::Config(rule));
        }
        (RedisMode::Cluster, _) => Plan::cluster(&endpoints, names),
    };
    let bad = |_| OpenError::Address {
        url: config.urls[0].clone(),
    };
    plan.map_err(bad)
}

/// Reads what the store is, and says so first if nobody has.
async fn identify(
    node: &Arc<Node>,
    names: &Names,
    options: &RedisOptions,
) -> Result<String, OpenError> {
    let key = names.meta();
    let formats = options.formats();
    if let Some(id) = identity(node, &key, Pipeline::new(), formats).await? {
        return Ok(id);
    }
    let mut make = Pipeline::new();
    for (field, value) in [
        ("partitions", PARTITIONS.to_string()),
        ("id", format!("{:016x}", options.seed)),
        ("format", formats.newest.to_string()),
    ] {
        make.cmd("HSETNX").arg(&key).arg(field).arg(value).ignore();
    }
    let id = identity(node, &key, make, formats).await?;
    id.ok_or(OpenError::Foreign { key })
}

/// The id of the store, if there is one after these commands.
async fn identity(
    node: &Arc<Node>,
    key: &str,
    mut commands: Pipeline,
    known: Formats,
) -> Result<Option<String>, OpenError> {
    let fields = commands.cmd("HMGET").arg(key);
    fields.arg(&["format", "partitions", "id"]);
    let values = node.send_all(&commands).await;
    let values = values.map_err(|trouble| match trouble {
        Trouble::Failed(error) if error.code() == Some("WRONGTYPE") => OpenError::Foreign {
            key: key.to_owned(),
        },
        trouble => OpenError::Unavailable(trouble.told(node)),
    })?;
    let lost = |error| OpenError::Unavailable(odd(Effect::Reads, error));
    let fields = values.into_iter().next().unwrap_or_default();
    let mut fields = Reply::new(fields).map_err(lost)?;
    let Some(format) = fields.optional().map_err(lost)? else {
        return Ok(None);
    };
    let found = String::from_utf8_lossy(&format).into_owned();
    let is_known = known.know(&found)
        && fields
            .int()
            .is_ok_and(|number| number == i64::from(PARTITIONS));
    match is_known {
        true => Ok(Some(fields.text().map_err(lost)?)),
        false => Err(OpenError::Format { found, known }),
    }
}
