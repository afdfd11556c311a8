//! The prompts of this process and of stored agents: listed, and rendered for a person to see.

use super::super::Answer;
use super::super::pages;
use super::{errors, page, stored};
use crate::agents::of_document;
use crate::requests::Requests;
use cairn_agents::is_name;
use cairn_model::PromptError;
use cairn_model::prompt::{Prompt, PromptSource, is_variable};
use cairn_proto::api as pb;
use cairn_proto::memory::{Document, DocumentPosition};
use cairn_rpc::{ErrorKind, Namespace, RpcError, check_required_text, check_text, principal};
use std::collections::BTreeMap;
use tonic::{Request, Response};

/// The name of an agent's prompt is this and the agent's name.
const OF_AGENT: &str = "agent:";
/// Most bytes of a name: an agent's has 64.
const MAX_NAME: usize = OF_AGENT.len() + 64;
/// Most variables of a request, and most bytes of their names and values together.
const MOST_VARIABLES: usize = 64;
const MAX_VARIABLES: usize = 64 * 1024;
/// Tokens of pages begin so: the page continues after a prompt of this process, or among agents.
const AFTER_NAME: &str = "name:";
const AMONG_AGENTS: &str = "agents:";

pub(super) async fn list(
    requests: &Requests,
    request: Request<pb::ListPromptsRequest>,
) -> Answer<pb::ListPromptsResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    pages::check_size(asked.page_size)?;
    let most = match asked.page_size {
        0 => pages::MAX_PAGE,
        most => most,
    };
    let (mut prompts, after) = match Place::read(&asked.page_token)? {
        Place::Agents(after) => (Vec::new(), after),
        Place::Own(name) => (own(requests, &name), None),
    };
    if prompts.len() >= most as usize {
        let has_more = prompts.len() > most as usize;
        prompts.truncate(most as usize);
        let next_page_token = match prompts.last().filter(|_| has_more) {
            Some(last) => format!("{AFTER_NAME}{}", last.name),
            None => AMONG_AGENTS.to_owned(),
        };
        return Ok(Response::new(pb::ListPromptsResponse {
            prompts,
            next_page_token,
        }));
    }
    let room = most - u32::try_from(prompts.len()).unwrap_or(0);
    let page = page(requests, &namespace, after, room).await?;
    prompts.extend(page.living().map(of_agent));
    let next = Some(page.next_token()).filter(|next| !next.is_empty());
    let next = next.map(|next| format!("{AMONG_AGENTS}{next}"));
    Ok(Response::new(pb::ListPromptsResponse {
        prompts,
        next_page_token: next.unwrap_or_default(),
    }))
}

pub(super) async fn render(
    requests: &Requests,
    request: Request<pb::RenderPromptRequest>,
) -> Answer<pb::RenderPromptResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let pb::RenderPromptRequest { name, variables } = request.into_inner();
    check_required_text("name", &name, MAX_NAME)?;
    check_variables(&variables)?;
    let text = match name.strip_prefix(OF_AGENT) {
        Some(agent) => text_of_agent(requests, &namespace, agent).await?,
        None => {
            let prompts = &requests.deps().config.prompts;
            let values = variables.iter();
            let values = values.map(|(name, value)| (name.as_str(), value.as_str()));
            let rendered = prompts.render(&name, values);
            rendered.map_err(|error| refused(&error))?
        }
    };
    Ok(Response::new(pb::RenderPromptResponse { text }))
}

/// Where a page begins.
enum Place {
    /// With the first prompt of this process after this name.
    Own(String),
    /// With the agents after this position; none for all.
    Agents(Option<DocumentPosition>),
}

impl Place {
    fn read(token: &str) -> Result<Self, RpcError> {
        if let Some(position) = token.strip_prefix(AMONG_AGENTS) {
            return pages::position(position).map(Self::Agents);
        }
        match token.strip_prefix(AFTER_NAME) {
            Some(name) if is_name(name) => Ok(Self::Own(name.to_owned())),
            None if token.is_empty() => Ok(Self::Own(String::new())),
            Some(_) | None => Err(pages::wrong()),
        }
    }
}

/// The prompts of this process after a name.
fn own(requests: &Requests, after: &str) -> Vec<pb::Prompt> {
    let prompts = requests.deps().config.prompts.all();
    let later = prompts.filter(|prompt| prompt.template().name() > after);
    later.map(of_process).collect()
}

fn of_process(prompt: &Prompt) -> pb::Prompt {
    let template = prompt.template();
    let source = match prompt.source() {
        PromptSource::BuiltIn => pb::PromptSource::BuiltIn,
        PromptSource::Settings => pb::PromptSource::Settings,
    };
    let problem = template.check().err();
    pb::Prompt {
        name: template.name().to_owned(),
        source: source.into(),
        text: template.text().to_owned(),
        variables: template.variables(),
        problem: problem.map(|it| it.to_string()).unwrap_or_default(),
    }
}

fn of_agent(document: &Document) -> pb::Prompt {
    let (text, problem) = match of_document(document) {
        Ok((_, parsed)) => (parsed.value.prompt, String::new()),
        Err(problem) => (String::new(), problem),
    };
    pb::Prompt {
        name: format!("{OF_AGENT}{}", document.id),
        source: pb::PromptSource::Agent.into(),
        text,
        variables: Vec::new(),
        problem,
    }
}

async fn text_of_agent(
    requests: &Requests,
    namespace: &Namespace,
    agent: &str,
) -> Result<String, RpcError> {
    let missing = || missing(&format!("{OF_AGENT}{agent}"));
    if !is_name(agent) {
        return Err(missing());
    }
    let document = stored(requests, namespace, agent).await?;
    let document = document.ok_or_else(missing)?;
    match of_document(&document) {
        Ok((_, parsed)) => Ok(parsed.value.prompt),
        Err(problem) => Err(errors::unreadable(agent, &problem)),
    }
}

fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), RpcError> {
    let refuse = |problem: String, allowed: String| {
        let error = RpcError::invalid("variables", problem).allowed(allowed);
        Err(error)
    };
    if variables.len() > MOST_VARIABLES {
        let problem = format!("has {} items", variables.len());
        return refuse(problem, format!("at most {MOST_VARIABLES}"));
    }
    let bytes = variables
        .iter()
        .map(|(name, value)| name.len() + value.len());
    let bytes: usize = bytes.sum();
    if bytes > MAX_VARIABLES {
        let problem = format!("has {bytes} bytes");
        return refuse(problem, format!("at most {MAX_VARIABLES}"));
    }
    for (name, value) in variables {
        if !is_variable(name) {
            let allowed = "letters, digits and '_', of which the first is no digit";
            return refuse(format!("has the name {name:?}"), allowed.to_owned());
        }
        check_text("variables", value, MAX_VARIABLES)?;
    }
    Ok(())
}

fn missing(name: &str) -> RpcError {
    RpcError::not_found("prompt", name).reason("PROMPT_NOT_FOUND")
}

fn refused(error: &PromptError) -> RpcError {
    let name = error.template();
    let Some(line) = error.line() else {
        return missing(name);
    };
    let refused = RpcError::new(ErrorKind::InvalidArgument, error.to_string());
    let refused = match error.variable() {
        Some(variable) => refused
            .and_invalid("variables", format!("has no {variable:?}"))
            .meta("variable", variable),
        None => refused.and_invalid("name", "is that of a prompt that cannot be rendered"),
    };
    let refused = refused.reason("BAD_PROMPT").meta("prompt", name);
    refused.meta("line", line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_where_its_token_says() {
        let place = |token: &str| match Place::read(token) {
            Ok(Place::Own(name)) => format!("own {name}"),
            Ok(Place::Agents(after)) => format!("agents {}", after.map_or(0, |it| it.counter)),
            Err(error) => error.violations()[0].field.clone(),
        };
        assert_eq!(place(""), "own ");
        assert_eq!(place("name:planning"), "own planning");
        assert_eq!(place("agents:"), "agents 0");
        assert_eq!(place("agents:42.40.7.1-a"), "agents 42");
        for wrong in ["x", "name:", "name:a b", "agents:x", "planning"] {
            assert_eq!(place(wrong), "page_token", "{wrong}");
        }
    }

    #[test]
    fn a_missing_variable_is_named_with_the_prompt_and_the_line() {
        let error = refused(&PromptError::MissingVariable {
            template: "greeting".to_owned(),
            variable: "name".to_owned(),
            line: 3,
        });
        assert_eq!(error.reason_name(), "BAD_PROMPT");
        let said = ["prompt", "variable", "line"].map(|it| error.metadata(it));
        assert_eq!(said, [Some("greeting"), Some("name"), Some("3")]);
        assert_eq!(error.violations()[0].field, "variables");
        let expected =
            "the prompt \"greeting\" needs the variable \"name\" at line 3, which is not set";
        assert_eq!(error.to_string(), expected);
    }
}
