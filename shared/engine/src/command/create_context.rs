//! Creates a context.

use super::{Command, Handle, WhenFull};
use crate::decide::{Decision, Rejection};
use crate::event::AgentUse;
use crate::limits::{MAX_CONTEXTS, MAX_CONTEXT_NAME, check_extension, is_context_name_char};
use crate::message::{Message, Role};
use crate::refusal::Refusal;
use crate::session::{Apply, Context, Envelope, Session};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// Create a context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateContext {
    /// Its name, unique in the session.
    pub name: String,
    /// Its own system prompt; may be empty.
    pub prompt: String,
    /// The messages that it begins with, which nothing changes.
    pub immutable: Vec<Message>,
    /// How many of the newest messages a request has; none for all.
    pub window: Option<u32>,
    /// What happens when a turn becomes too long for its model; none for the default.
    pub when_full: Option<WhenFull>,
    /// Name of its agent; empty for the default agent.
    pub agent: String,
}

/// A context was created, as the command says that the event answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextCreated {
    /// Its name.
    pub context: String,
    /// Its agent; none for the plain default.
    pub agent: Option<AgentUse>,
}

impl CreateContext {
    fn check(&self, session: &Session) -> Result<(), Rejection> {
        let name = &self.name;
        let is_allowed = name.chars().all(is_context_name_char);
        if name.is_empty() || name.len() > MAX_CONTEXT_NAME || !is_allowed {
            let message = format!(
                "the name has {} bytes; allowed are 1 to {MAX_CONTEXT_NAME} of a-z, A-Z, 0-9, '.', '_' and '-'",
                name.len()
            );
            return Err(Rejection::refused(Refusal::BadContext, message));
        }
        if session.contexts.contains_key(name) {
            let message = format!("there is a context '{name}' already; take another name");
            return Err(Rejection::refused(Refusal::ContextExists, message));
        }
        if session.contexts.len() >= MAX_CONTEXTS {
            let message = format!("the session has {MAX_CONTEXTS} contexts, which is the most; destroy one");
            return Err(Rejection::refused(Refusal::Limit, message));
        }
        if self.window == Some(0) {
            let message = "the window has 0 messages; allowed is 1 and more, or none for all";
            return Err(Rejection::refused(Refusal::BadContext, message));
        }
        if self.immutable.iter().any(|it| it.role == Role::System) {
            let message = "a message of the role system is no part of a context; give it as the system prompt";
            return Err(Rejection::refused(Refusal::BadMessage, message));
        }
        let bytes = self.immutable.iter().map(Message::bytes).sum::<u64>() + self.prompt.len() as u64;
        check_extension(bytes).map_err(|message| Rejection::refused(Refusal::Limit, message))
    }
}

impl Handle for CreateContext {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        self.check(decision.session)?;
        let agent = decision.agent_named(&self.agent)?;
        let agent = decision.define(agent)?;
        let context = self.name;
        decision.answer(ContextCreated {
            context: context.clone(),
            agent,
        })?;
        Ok(decision.write_layers(&context)?)
    }
}

impl Apply for ContextCreated {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let received = session.commands.get(&envelope.answers);
        let Some(Command::CreateContext(create)) = received.map(|it| &it.command) else {
            return Err(IllegalTransition::missing("the command of a new context"));
        };
        session.check_agent(self.agent.as_ref())?;
        let mut context = Context::new(create);
        context.set_agent(
            self.agent.clone(),
            session.agent_window(self.agent.as_ref()),
        );
        let name = self.context.clone();
        match session.contexts.insert(name, Box::new(context)) {
            None => Ok(()),
            Some(_) => {
                let what = format_args!("context {}", self.context);
                Err(IllegalTransition::not_allowed(what, "there", "created"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_EXTENSION;
    use crate::command::testing::Sent;
    use crate::command::{BridgeContext, SwitchContext};
    use crate::conversation::LayerKind;

    fn create(name: &str) -> CreateContext {
        CreateContext {
            name: name.to_owned(),
            prompt: "Be brief.".to_owned(),
            immutable: vec![Message::user("always")],
            window: Some(2),
            when_full: Some(WhenFull::Refuse),
            agent: String::new(),
        }
    }

    #[test]
    fn it_begins_with_its_prompt_its_messages_and_session_memory() {
        let mut sent = Sent::new();
        sent.send(create("first"));
        sent.send(BridgeContext {
            to: "first".to_owned(),
            values: vec![("key".to_owned(), "value".to_owned())],
            ..BridgeContext::default()
        });
        sent.send(create("side.A-1"));
        let context = sent.session.context("side.A-1").expect("it is there");
        let texts: Vec<_> = context.messages().map(Message::text).collect();
        assert_eq!(texts, ["always"]);
        assert_eq!((context.conversation.window, context.bytes), (Some(2), 32 + 6));
        let layers = &context.conversation.system;
        let last = layers.last().expect("a system prompt");
        assert_eq!(last.kind, LayerKind::Memory);
        assert!(last.text.contains("key: value"), "{}", last.text);
        assert!(layers.iter().any(|layer| &*layer.text == "Be brief."));
        assert_eq!(sent.session.active_context, "main");
    }

    #[test]
    fn a_faulty_one_is_not_created() {
        let mut sent = Sent::new();
        sent.send(create("side"));
        assert_eq!(sent.refused(create("side")), Refusal::ContextExists);
        for name in ["", "a b", "a/b", "é", &"x".repeat(MAX_CONTEXT_NAME + 1)] {
            assert_eq!(sent.refused(create(name)), Refusal::BadContext, "{name}");
        }
        let no_window = CreateContext {
            window: Some(0),
            ..create("other")
        };
        assert_eq!(sent.refused(no_window), Refusal::BadContext);
        let system = CreateContext {
            immutable: vec![Message::system("x")],
            ..create("other")
        };
        assert_eq!(sent.refused(system), Refusal::BadMessage);
        let large = CreateContext {
            prompt: "x".repeat(MAX_EXTENSION as usize),
            ..create("other")
        };
        assert_eq!(sent.refused(large), Refusal::Limit);
    }

    #[test]
    fn a_session_has_a_limit_of_contexts() {
        let mut sent = Sent::new();
        for n in 1..MAX_CONTEXTS {
            sent.send(create(&format!("side-{n}")));
        }
        assert_eq!(sent.refused(create("one-more")), Refusal::Limit);
        sent.send(SwitchContext {
            context: "side-1".to_owned(),
        });
        assert_eq!(sent.session.active_context, "side-1");
    }
}
