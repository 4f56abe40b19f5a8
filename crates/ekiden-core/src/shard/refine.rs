//! A planner's refinement of the parts: better names and needs. The cuts stay.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Need, Shards, TITLE_CHARS_MAX, Why};
use crate::manifest::graph::Graph;
use crate::text::{clean, one_line};

/// The schema for the planner's answer.
pub const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["parts"],"properties":{"parts":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","title","needs"],"properties":{"id":{"type":"string"},"title":{"type":"string","maxLength":56},"needs":{"type":"array","items":{"type":"string"}}}}}}}"#;

#[derive(Deserialize)]
struct Answer {
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    id: String,
    title: String,
    needs: Vec<String>,
}

impl Shards {
    /// Applies an answer, or reports what is wrong with it and changes nothing.
    pub fn refine(&mut self, answer: &str) -> Result<(), String> {
        let Answer { parts } =
            serde_json::from_str(answer).map_err(|error| format!("the answer: {error}"))?;
        let count = parts.len();
        let parts: BTreeMap<String, Part> = parts
            .into_iter()
            .map(|part| (part.id.clone(), part))
            .collect();
        let missing = self
            .shards
            .iter()
            .find(|shard| !parts.contains_key(&shard.id));
        if let Some(shard) = missing {
            return Err(format!("part {} is missing", shard.id));
        }
        if count != self.shards.len() {
            return Err(format!(
                "there are {} parts, not {count}",
                self.shards.len()
            ));
        }
        check_needs(&parts)?;
        for shard in &mut self.shards {
            let part = &parts[&shard.id];
            let title = one_line(&clean(&part.title).text, TITLE_CHARS_MAX);
            if !title.is_empty() {
                shard.title = title;
            }
            let known = std::mem::take(&mut shard.needs);
            let need = |id: &String| {
                let known = known.iter().find(|need| need.id == *id);
                known.cloned().unwrap_or_else(|| Need {
                    id: id.clone(),
                    why: Why::Planner,
                })
            };
            shard.needs = part.needs.iter().map(need).collect();
        }
        Ok(())
    }
}

/// Every need is a part, and no part waits for itself.
fn check_needs(parts: &BTreeMap<String, Part>) -> Result<(), String> {
    let ids: Vec<&str> = parts.keys().map(String::as_str).collect();
    let places = |part: &Part| {
        let place = |need: &String| {
            let place = ids.binary_search(&need.as_str());
            place.map_err(|_| format!("part {} needs {need}, which is no part", part.id))
        };
        part.needs.iter().map(place).collect()
    };
    let needs: Result<Vec<Vec<usize>>, String> = parts.values().map(places).collect();
    match Graph::new(needs?).cycles().first() {
        None => Ok(()),
        Some(circle) => {
            let ids: Vec<&str> = circle.iter().map(|place| ids[*place]).collect();
            let ids = ids.join(", ");
            Err(format!("these parts wait for each other: {ids}"))
        }
    }
}
