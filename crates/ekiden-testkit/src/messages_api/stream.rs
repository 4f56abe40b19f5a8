//! A message in the API's two forms: a stream of events, or one JSON body.

use std::io;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::reply::{Block, Ending, Message};

/// Events that may wait for a slow client before the writer does too.
const EVENTS_QUEUED_MAX: usize = 64;

/// What the API says besides the model's own words.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    /// The number of the response, of which its ids are made.
    pub(super) number: usize,
    /// The model that was asked for.
    pub(super) model: String,
}

type Events = mpsc::Sender<Result<Bytes, io::Error>>;

/// The message as a stream, written as fast as the client reads.
pub(super) fn streamed(message: Message, envelope: Envelope) -> Body {
    let (events, mut queue) = mpsc::channel(EVENTS_QUEUED_MAX);
    tokio::spawn(write(message, envelope, events));
    Body::from_stream(futures_util::stream::poll_fn(move |context| {
        queue.poll_recv(context)
    }))
}

/// The message as one body. A gate is for streams: see [`streamed`].
pub(super) fn whole(message: &Message, envelope: &Envelope) -> Value {
    let content: Vec<_> = message
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| full_block(block, index, envelope))
        .collect();
    json!({
        "id": format!("msg_{}", envelope.number),
        "type": "message",
        "role": "assistant",
        "model": envelope.model,
        "content": content,
        "stop_reason": message.stop_reason(),
        "stop_sequence": null,
        "usage": message.usage.to_json(message.usage.output),
    })
}

/// A body that breaks off before its first byte.
pub(super) fn broken() -> Body {
    Body::from_stream(futures_util::stream::poll_fn(|_| {
        std::task::Poll::Ready(Some(Err::<Bytes, _>(cut_off())))
    }))
}

/// Writes all events. It ends early, without fault, when the client has gone.
async fn write(message: Message, envelope: Envelope, events: Events) {
    let mut all = vec![start(&message, &envelope)];
    for (index, block) in message.blocks.iter().enumerate() {
        all.extend(block_events(block, index, &envelope));
    }
    for event in all {
        if send(&events, &event).await.is_err() {
            return;
        }
    }
    if let Some(gate) = &message.gate {
        tokio::select! {
            () = gate.passed() => {}
            () = events.closed() => return,
        }
    }
    finish(&message, &events).await;
}

async fn finish(message: &Message, events: &Events) {
    let sent = match message.ending {
        Ending::Complete | Ending::Because(_) => {
            let delta = json!({ "stop_reason": message.stop_reason(), "stop_sequence": null });
            let usage = message.usage.to_json(message.usage.output);
            let last = json!({ "type": "message_delta", "delta": delta, "usage": usage });
            match send(events, &last).await {
                Ok(()) => send(events, &json!({ "type": "message_stop" })).await,
                gone => gone,
            }
        }
        Ending::Stall => {
            events.closed().await;
            Ok(())
        }
        Ending::Drop => {
            // An error would overtake what is still queued: it goes once the client has the rest.
            drop(events.reserve_many(EVENTS_QUEUED_MAX).await);
            events.send(Err(cut_off())).await
        }
        Ending::Error(kind) => {
            let error = json!({ "type": kind, "message": "said by the fake API" });
            send(events, &json!({ "type": "error", "error": error })).await
        }
    };
    // A client that went away has nothing more to be told.
    drop(sent);
}

async fn send(
    events: &Events,
    event: &Value,
) -> Result<(), mpsc::error::SendError<Result<Bytes, io::Error>>> {
    let name = event["type"].as_str().unwrap_or_default();
    events
        .send(Ok(Bytes::from(format!("event: {name}\ndata: {event}\n\n"))))
        .await
}

fn start(message: &Message, envelope: &Envelope) -> Value {
    let mut begun = whole(message, envelope);
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    begun["usage"] = message.usage.to_json(1);
    json!({ "type": "message_start", "message": begun })
}

fn block_events(block: &Block, index: usize, envelope: &Envelope) -> [Value; 3] {
    let mut empty = full_block(block, index, envelope);
    let delta = match block {
        Block::Text(words) => {
            empty["text"] = json!("");
            json!({ "type": "text_delta", "text": words })
        }
        Block::ToolUse { input, .. } => {
            empty["input"] = json!({});
            json!({ "type": "input_json_delta", "partial_json": input.to_string() })
        }
    };
    [
        json!({ "type": "content_block_start", "index": index, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": index, "delta": delta }),
        json!({ "type": "content_block_stop", "index": index }),
    ]
}

fn full_block(block: &Block, index: usize, envelope: &Envelope) -> Value {
    match block {
        Block::Text(words) => json!({ "type": "text", "text": words }),
        Block::ToolUse { name, input } => {
            let id = format!("toolu_{}_{index}", envelope.number);
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
    }
}

fn cut_off() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the fake API dropped the connection",
    )
}
