//! What we send to the conversation, and its questions of permission.

use serde_json::{Value, json};

use super::Acp;
use super::able::Joining;
use crate::consent::Decided;
use crate::hook_output::HookAnswer;
use crate::lines::Line;
use crate::rpc::{Dialect, INITIALIZE, Message, Outbox, blocks};
use crate::stream::ClientEvent;
use crate::trace::keep;
use crate::{json, limits};

/// A message that is not yet part of a request.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) uuid: String,
    pub(super) text: String,
    pub(super) way: Way,
}

/// How a message gets to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It opens a turn.
    Opens,
    /// The agent was asked to take it into the running turn.
    Steers,
    /// It was put into the running turn, so it is delivered with the results of tools.
    Joins,
    /// Not sent yet: the turn must end first.
    Waits,
    /// The same, and the agent was asked to end the turn.
    Cancels,
}

impl Sent {
    pub(super) fn is_unsent(&self) -> bool {
        matches!(self.way, Way::Waits | Way::Cancels)
    }
}

impl Dialect for Acp {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn begin(&mut self, texts: &[&str]) {
        self.first = texts.iter().map(|text| (*text).to_owned()).collect();
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false,
            },
            "clientInfo": {"name": "ekiden", "version": env!("CARGO_PKG_VERSION")},
        });
        self.out.request(INITIALIZE, "initialize", &params);
    }

    fn say(&mut self, text: &str, uuid: &str) {
        let texts = [text.to_owned()];
        if !self.is_open || !self.first.is_empty() {
            // The conversation has not begun: the text comes with the first prompt.
            self.first.extend(texts);
            return self.out.delivered(uuid.to_owned());
        }
        if self.prompts.is_empty() {
            // The request itself opens the turn, however long the model is silent.
            self.prompt(&texts);
            self.out.see(ClientEvent::Init);
            return self.out.delivered(uuid.to_owned());
        }
        let way = match self.able.joining {
            Joining::Steer => {
                let params = json!({"sessionId": self.session, "prompt": blocks(&texts)});
                self.joining = self.request("_session/steering", &params);
                Way::Steers
            }
            Joining::Prompt => {
                self.has_results = false;
                self.prompt(&texts);
                self.joining = self.last_id;
                Way::Joins
            }
            Joining::Cancel => Way::Waits,
        };
        let [text] = texts;
        let uuid = uuid.to_owned();
        self.sent = Some(Sent { uuid, text, way });
        self.make_way();
    }

    fn answer(&mut self, callback: &str, answer: &HookAnswer) {
        if let Some(decided) = self.questions.answer(callback, answer) {
            self.permit(decided);
        }
    }

    fn interrupt(&mut self) {
        self.is_interrupted = true;
        let params = json!({"sessionId": self.session});
        self.out.notify("session/cancel", &params);
    }

    fn hear(&mut self, line: Line<'_>) {
        match Message::of(line) {
            Message::Answer { id, answer } => self.answered(id, answer),
            Message::Notice { method, params } if method == "session/update" => {
                let is_ours = params["sessionId"] == *self.session;
                if is_ours && self.is_open {
                    self.update(&params["update"]);
                } else if is_ours {
                    // An earlier attempt paid for it.
                    self.costs(&params["update"]["cost"]);
                    self.charged_usd = self.cost_usd;
                }
            }
            Message::Notice { method, params } if params["sessionId"] == *self.session => {
                self.plugin_told(&method, &params);
            }
            Message::Notice { .. } => {}
            Message::Request { id, method, params } if method == "session/request_permission" => {
                self.permission(&id, &params);
            }
            Message::Request { id, method, .. } => self.out.refuse(&id, &method),
            Message::Odd => {
                self.out.see(ClientEvent::Malformed);
                // One that is too long to read may have been the end of a call.
                if matches!(line, Line::Oversized { .. }) {
                    self.calls.clear();
                    self.make_way();
                }
            }
        }
    }

    fn cost_usd(&self) -> f64 {
        self.cost_usd
    }

    fn conversation(&self) -> Option<&str> {
        let can = self.able.resume.is_some() && !self.session.is_empty();
        can.then_some(&self.session)
    }
}

impl Acp {
    /// The agent takes no message into a running turn after all, so the turn is ended to deliver it.
    pub(super) fn not_joined(&mut self) {
        self.able.joining = Joining::Cancel;
        if let Some(sent) = &mut self.sent
            && matches!(sent.way, Way::Steers | Way::Joins)
        {
            sent.way = Way::Waits;
        }
        self.make_way();
    }

    /// Sends the message that waited for the end of the turn.
    pub(super) fn send_waiting(&mut self) -> bool {
        let Some(sent) = self.sent.as_mut().filter(|sent| sent.is_unsent()) else {
            return false;
        };
        sent.way = Way::Opens;
        let text = std::mem::take(&mut sent.text);
        self.calls.clear();
        self.prompt(&[text]);
        true
    }

    /// Ends the turn for the waiting message, as soon as no call is running.
    pub(super) fn make_way(&mut self) {
        let busy = self
            .calls
            .iter()
            .any(|call| call.is_shown && !call.is_over());
        if let Some(sent) = self.sent.as_mut()
            && sent.way == Way::Waits
            && !busy
        {
            sent.way = Way::Cancels;
            let params = json!({"sessionId": self.session});
            self.out.notify("session/cancel", &params);
        }
    }

    pub(super) fn delivered(&mut self) {
        if let Some(sent) = self.sent.take_if(|sent| !sent.is_unsent()) {
            self.out.delivered(sent.uuid);
        }
    }

    /// A request for permission becomes a question to the guard for each path that it names.
    pub(super) fn permission(&mut self, id: &Value, params: &Value) {
        let told = &params["toolCall"];
        self.heard();
        self.flush_words();
        self.call(told);
        let call = self
            .calls
            .iter()
            .find(|call| told["toolCallId"] == *call.id);
        let hooks = call.cloned().unwrap_or_default().hooks(&self.start.dir);
        let offer = (id.clone(), params["options"].clone());
        keep(&mut self.offers, offer, limits::OPEN_CALLBACKS_MAX);
        self.questions.ask(id, hooks, &mut self.out);
    }

    fn permit(&mut self, decided: Decided) {
        let kind = match decided.may {
            true => "allow_once",
            false => "reject_once",
        };
        let is_this = |offer: &mut (Value, Value)| offer.0 == decided.id;
        let options = self.offers.extract_if(.., is_this).next();
        let options = options.map(|(_, options)| options).unwrap_or_default();
        let option = json::elements(&options)
            .iter()
            .find(|option| option["kind"] == kind);
        let outcome = match option {
            Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        };
        self.out.answer(&decided.id, &json!({"outcome": outcome}));
        self.out.refused(decided.refused);
        if let Some(place) = self.calls.iter().position(|call| call.id == decided.call) {
            self.calls[place].decided(decided.may);
            self.show(place);
        }
        self.make_way();
    }
}
