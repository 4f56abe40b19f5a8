//! Opens a conversation: the model and the mode that the user chose are set before the first message.

use serde_json::{Value, json};

use super::Acp;
use super::able::{Choice, LOAD};
use crate::consent::MODES;
use crate::json;
use crate::rpc::{OPEN, ended, words_of};
use crate::stream::{ApiError, ApiErrorKind, ClientEvent, TerminalReason};

impl Acp {
    pub(super) fn open(&mut self) {
        let (dir, session) = (&self.start.dir, &self.session);
        let (method, params) = match &self.start.resume {
            Some(_) => (
                self.able.resume.unwrap_or(LOAD),
                json!({"sessionId": session, "cwd": dir, "mcpServers": []}),
            ),
            None => ("session/new", json!({"cwd": dir, "mcpServers": []})),
        };
        self.out.request(OPEN, method, &params);
    }

    pub(super) fn opened(&mut self, told: &Value) {
        if let Some(id) = told["sessionId"].as_str().filter(|id| *id != self.session) {
            id.clone_into(&mut self.session);
            (self.cost_usd, self.charged_usd) = (0.0, 0.0);
        }
        self.is_open = true;
        let models = &told["models"];
        let mut known = json::elements(&models["availableModels"]).iter();
        let current = known.find(|model| model["modelId"] == models["currentModelId"]);
        let chosen = option(told, "model").map(|option| &option["currentValue"]);
        let chosen = chosen.unwrap_or(&models["currentModelId"]).as_str();
        self.own_model = chosen.map(str::to_owned);
        self.context.window =
            current.map_or(0, |model| json::field(&model["_meta"]["contextLimit"]));
        self.choose_model(told);
        self.choose_mode(told);
        self.send_first();
    }

    fn choose_model(&mut self, told: &Value) {
        let Some(model) = self.start.model.clone() else {
            return;
        };
        match option(told, "model") {
            Some(option) => self.choose_option(Choice::Model, option, &model.into()),
            None => {
                let params = json!({"sessionId": self.session, "modelId": model});
                self.choose(Choice::Model, "session/set_model", &params);
            }
        }
    }

    /// Our own modes need nothing from the agent: they decide how its questions are answered.
    fn choose_mode(&mut self, told: &Value) {
        let Some(mode) = self.start.permissions.mode.clone() else {
            return;
        };
        // Some agents identify a mode by an address, with its name at the end.
        let is_it = |id: &&Value| {
            let id = id.as_str().unwrap_or_default();
            id.rsplit('#').next() == Some(&*mode)
        };
        let offered = json::elements(&told["modes"]["availableModes"]).iter();
        let option = option(told, "mode");
        let values = option.map_or(&[][..], |option| json::elements(&option["options"]));
        let mut values = values.iter().map(|value| &value["value"]);
        if let Some(id) = offered.map(|known| &known["id"]).find(is_it) {
            let params = json!({"sessionId": self.session, "modeId": id});
            self.choose(Choice::Mode, "session/set_mode", &params);
        } else if let Some((option, value)) = option.zip(values.find(is_it)) {
            self.choose_option(Choice::Mode, option, value);
        } else if self.start.resume.is_none() && !MODES.contains(&&*mode) {
            let words = format!("it has no permission mode `{mode}`");
            self.not_chosen(Choice::Mode, &json!({ "message": words }));
        }
    }

    fn choose_option(&mut self, choice: Choice, option: &Value, value: &Value) {
        let params = json!({"sessionId": self.session, "configId": option["id"], "value": value});
        self.choose(choice, "session/set_config_option", &params);
    }

    fn choose(&mut self, choice: Choice, method: &str, params: &Value) {
        let id = self.request(method, params);
        self.choices.insert(id, choice);
    }

    /// The agent accepted the choice, or said why not.
    pub(super) fn chosen(&mut self, id: u64, error: Option<Value>) {
        let choice = self.choices.remove(&id);
        // A resumed conversation already has its model.
        let has_it = choice == Some(Choice::Model) && self.start.resume.is_some();
        match choice.zip(error) {
            Some((choice, error)) if !has_it => self.not_chosen(choice, &error),
            _ => self.send_first(),
        }
    }

    /// Nothing begins with a setting that nobody chose.
    fn not_chosen(&mut self, choice: Choice, error: &Value) {
        if std::mem::take(&mut self.first).is_empty() {
            return;
        }
        match choice {
            Choice::Mode => self.out.unopened(error),
            Choice::Model => {
                let kind = ApiErrorKind::ModelNotFound;
                let error_of = ApiError { kind, status: None };
                let result = ended(true, TerminalReason::ApiError);
                self.out.failed(error_of, result, &words_of(error));
            }
        }
    }

    fn send_first(&mut self) {
        if self.choices.is_empty() && !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.prompt(&first);
            self.out.see(ClientEvent::Init);
        }
    }
}

fn option<'a>(told: &'a Value, category: &str) -> Option<&'a Value> {
    let mut options = json::elements(&told["configOptions"]).iter();
    options.find(|option| option["category"] == category)
}
