//! `cairn.api.v1.HookService`: hooks of clients are documents of the caller's namespace, which name addresses alone.
//! Those of the settings are read only.

mod errors;

use super::{Answer, Orchestrator};
use crate::hooks::{Configured, Hooks, Stored, Unusable, check_name, message, read};
use crate::requests::Requests;
use crate::store::for_namespace;
use cairn_engine::hooks::MAX_HOOKS;
use cairn_engine::key::{digest, hex};
use cairn_hooks::{Definition, Means};
use cairn_proto::api as pb;
use cairn_proto::api::hook_service_server::HookService;
use cairn_proto::memory as memory_pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{Namespace, RpcError, check_request_id, principal};
use prost::Message as _;
use tonic::{Request, Response};

/// Most hooks of a page.
const MAX_PAGE: u32 = 100;

#[tonic::async_trait]
impl HookService for Orchestrator {
    async fn put_hook(&self, request: Request<pb::PutHookRequest>) -> Answer<pb::PutHookResponse> {
        put(&self.requests, request).await
    }

    async fn get_hook(&self, request: Request<pb::GetHookRequest>) -> Answer<pb::GetHookResponse> {
        get(&self.requests, request).await
    }

    async fn list_hooks(
        &self,
        request: Request<pb::ListHooksRequest>,
    ) -> Answer<pb::ListHooksResponse> {
        list(&self.requests, request).await
    }

    async fn delete_hook(
        &self,
        request: Request<pb::DeleteHookRequest>,
    ) -> Answer<pb::DeleteHookResponse> {
        delete(&self.requests, request).await
    }
}

fn hooks(requests: &Requests) -> &Hooks {
    &requests.deps().hooks
}

async fn put(
    requests: &Requests,
    request: Request<pb::PutHookRequest>,
) -> Answer<pb::PutHookResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let definition = asked.hook.ok_or_else(|| RpcError::missing("hook"))?;
    let definition = read("hook.", &definition)?;
    check_address(hooks(requests), &definition)?;
    if hooks(requests).configured_as(&definition.name).is_some() {
        return Err(errors::of_settings_exists(&definition.name).into());
    }
    check_room(requests, &namespace, &definition.name).await?;
    let stored = memory_pb::HookDocument {
        definition: message(&definition).encode_to_vec(),
    };
    let put = memory_pb::PutDocumentRequest {
        kind: memory_pb::DocumentKind::Hook.into(),
        id: definition.name.clone(),
        value: stored.encode_to_vec().into(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let put = documents.put_document(for_namespace(&namespace, put)).await;
    let put = put.map_err(|status| errors::of_change(&status, &definition.name))?;
    let hook = pb::Hook {
        version: put.into_inner().version,
        ..stored_hook(&definition)
    };
    Ok(Response::new(pb::PutHookResponse { hook: Some(hook) }))
}

/// The settings let clients store hooks with this address.
fn check_address(hooks: &Hooks, definition: &Definition) -> Result<(), RpcError> {
    match &definition.means {
        Means::Host(url) if hooks.allows(url) => Ok(()),
        Means::Host(url) => Err(errors::not_allowed(url, &hooks.allowed())),
        Means::InProcess | Means::Program(_) => Err(RpcError::missing("hook.url")),
    }
}

/// A namespace has no more hooks than a run can ask. A hook that is there can be replaced.
async fn check_room(
    requests: &Requests,
    namespace: &Namespace,
    name: &str,
) -> Result<(), RpcError> {
    let stored = hooks(requests).stored(requests.store(), namespace);
    let stored = Box::pin(stored).await?;
    match stored.len() < MAX_HOOKS || stored.contains_key(name) {
        true => Ok(()),
        false => Err(errors::full(MAX_HOOKS)),
    }
}

async fn get(
    requests: &Requests,
    request: Request<pb::GetHookRequest>,
) -> Answer<pb::GetHookResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let name = request.into_inner().name;
    check_name("name", &name)?;
    if let Some(configured) = hooks(requests).configured_as(&name) {
        let hook = Some(configured_hook(configured, &namespace));
        return Ok(Response::new(pb::GetHookResponse { hook }));
    }
    let get = memory_pb::GetDocumentRequest {
        kind: memory_pb::DocumentKind::Hook.into(),
        id: name.clone(),
    };
    let mut documents = requests.store().documents();
    let found = documents.get_document(for_namespace(&namespace, get)).await;
    let found = found?.into_inner().document;
    let document = found.ok_or_else(|| errors::missing(&name))?;
    let hook = hooks(requests).read(&document);
    let hook = Some(hook_of(&Stored { document, hook }));
    Ok(Response::new(pb::GetHookResponse { hook }))
}

async fn list(
    requests: &Requests,
    request: Request<pb::ListHooksRequest>,
) -> Answer<pb::ListHooksResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    if asked.page_size > MAX_PAGE {
        let error = RpcError::invalid("page_size", format!("is {}", asked.page_size));
        return Err(error.allowed(format!("0 to {MAX_PAGE}")).into());
    }
    let before = position(&asked.page_token)?;
    let configured = hooks(requests).configured().iter();
    let configured = configured.map(|it| configured_hook(it, &namespace));
    let stored = hooks(requests).stored(requests.store(), &namespace);
    let stored = Box::pin(stored).await?;
    let mut all: Vec<_> = configured
        .chain(stored.values().map(hook_of))
        .skip(before)
        .collect();
    let size = match asked.page_size {
        0 => MAX_PAGE,
        size => size,
    };
    let has_more = all.len() > size as usize;
    all.truncate(size as usize);
    let next = before + all.len();
    Ok(Response::new(pb::ListHooksResponse {
        hooks: all,
        next_page_token: match has_more {
            true => next.to_string(),
            false => String::new(),
        },
    }))
}

/// How many hooks stand before a page.
fn position(token: &str) -> Result<usize, RpcError> {
    if token.is_empty() {
        return Ok(0);
    }
    token.parse().map_err(|_| {
        let error = RpcError::invalid("page_token", "is no token of a page");
        error.allowed("next_page_token of the page before")
    })
}

async fn delete(
    requests: &Requests,
    request: Request<pb::DeleteHookRequest>,
) -> Answer<pb::DeleteHookResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_name("name", &asked.name)?;
    if hooks(requests).configured_as(&asked.name).is_some() {
        return Err(errors::of_settings(&asked.name).into());
    }
    let delete = memory_pb::DeleteDocumentRequest {
        kind: memory_pb::DocumentKind::Hook.into(),
        id: asked.name.clone(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let deleted = documents
        .delete_document(for_namespace(&namespace, delete))
        .await;
    let deleted = deleted.map_err(|status| errors::of_deletion(&status, &asked.name))?;
    match deleted.into_inner().version {
        0 => Err(errors::missing(&asked.name).into()),
        _ => Ok(Response::new(pb::DeleteHookResponse {})),
    }
}

/// The store takes shorter ids than clients may choose.
fn operation_id(request_id: &str) -> String {
    hex(&digest(&[b"cairn.hooks", request_id.as_bytes()]))
}

/// A stored hook without version and time.
fn stored_hook(definition: &Definition) -> pb::Hook {
    pb::Hook {
        definition: Some(message(definition)),
        source: pb::HookSource::Stored.into(),
        digest: definition.digest(),
        ..pb::Hook::default()
    }
}

fn hook_of(stored: &Stored) -> pb::Hook {
    let document = &stored.document;
    let hook = match &stored.hook {
        Ok(definition) => stored_hook(definition),
        Err(Unusable::NotAllowed(definition)) => pb::Hook {
            problem: "the settings (serve.hook_addresses) do not allow its address".to_owned(),
            ..stored_hook(definition)
        },
        Err(Unusable::Unreadable(problem)) => pb::Hook {
            definition: Some(pb::HookDefinition {
                name: document.id.clone(),
                ..pb::HookDefinition::default()
            }),
            source: pb::HookSource::Stored.into(),
            problem: format!("another version stored it, and this one cannot read it: {problem}"),
            ..pb::Hook::default()
        },
    };
    pb::Hook {
        version: document.version,
        change_time: Some(timestamp(document.changed_unix_ms)),
        ..hook
    }
}

/// A hook of the settings. Only callers in the operator's namespace see what is started.
fn configured_hook(configured: &Configured, namespace: &Namespace) -> pb::Hook {
    let Configured {
        definition, digest, ..
    } = configured;
    let (source, command) = match &definition.means {
        Means::InProcess => (pb::HookSource::InProcess, Vec::new()),
        Means::Host(_) => (pb::HookSource::Service, Vec::new()),
        Means::Program(program) => (pb::HookSource::Program, program.argv.clone()),
    };
    let is_operator = *namespace == Namespace::default();
    pb::Hook {
        definition: Some(message(definition)),
        source: source.into(),
        digest: digest.clone(),
        command: if is_operator { command } else { Vec::new() },
        ..pb::Hook::default()
    }
}
