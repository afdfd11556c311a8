//! Putting the messages of a request together.

use super::{PromptError, PromptTemplate, TemplateContext};
use cairn_engine::message::{Message, ToolCall};

/// Builds the messages of a conversation: one system message made of layers, then the others in
/// the order of their adding.
#[derive(Debug, Clone, Default)]
pub struct PromptComposer {
    layers: Vec<String>,
    messages: Vec<Message>,
}

impl PromptComposer {
    /// A composer without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a layer to the system message; an empty one is left out.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.layers.push(text.into());
        self
    }

    /// Adds a layer to the system message from a template.
    ///
    /// # Errors
    /// As [`PromptTemplate::render`].
    pub fn system_template(
        self,
        template: &PromptTemplate,
        context: &TemplateContext,
    ) -> Result<Self, PromptError> {
        Ok(self.system(template.render(context)?))
    }

    /// Adds a user message.
    #[must_use]
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(Message::user(text))
    }

    /// Adds a user message from a template.
    ///
    /// # Errors
    /// As [`PromptTemplate::render`].
    pub fn user_template(
        self,
        template: &PromptTemplate,
        context: &TemplateContext,
    ) -> Result<Self, PromptError> {
        Ok(self.user(template.render(context)?))
    }

    /// Adds a model's reply.
    #[must_use]
    pub fn assistant(self, text: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        self.message(Message::assistant(text, tool_calls))
    }

    /// Adds a message as it is.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Adds messages as they are.
    #[must_use]
    pub fn messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// The messages. The system message comes first, its layers joined by a blank line; without a
    /// layer there is none.
    pub fn compose(self) -> Vec<Message> {
        let layers = self.layers.iter().map(|layer| layer.trim_end());
        let layers: Vec<_> = layers.filter(|layer| !layer.is_empty()).collect();
        let system = (!layers.is_empty()).then(|| Message::system(layers.join("\n\n")));
        system.into_iter().chain(self.messages).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_become_one_system_message_before_the_others() {
        let greeting = PromptTemplate::new("greeting", "Hello {name}.");
        let context = TemplateContext::from([("name", "Ada")]);
        let messages = PromptComposer::new()
            .user_template(&greeting, &context)
            .expect("renders")
            .system("Base.\n")
            .system("")
            .system_template(&greeting, &context)
            .expect("renders")
            .assistant("Hi.", Vec::new())
            .messages([Message::user("Bye.")])
            .compose();
        let expected = [
            Message::system("Base.\n\nHello Ada."),
            Message::user("Hello Ada."),
            Message::assistant("Hi.", Vec::new()),
            Message::user("Bye."),
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn without_layers_there_is_no_system_message() {
        let messages = PromptComposer::new().system(" \n").user("Hi.").compose();
        assert_eq!(messages, [Message::user("Hi.")]);
    }
}
