//! What a person decided, as the client's record of a call shows it.

use serde_json::Value;

use crate::{excerpt, limits};

/// What the result of a call of this tool says: answers to questions, an approved plan.
pub(super) fn decisions(tool: &str, result: &Value) -> Vec<String> {
    match tool {
        "AskUserQuestion" => answers(result),
        "ExitPlanMode" => plan(result).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Each question with its answer, unless the person left it open.
fn answers(result: &Value) -> Vec<String> {
    let answers = result["answers"].as_object().into_iter().flatten();
    let is_open = |question: &String| !result["annotations"][question]["unanswered"].is_null();
    let answered = answers.filter(|(question, _)| !is_open(question));
    answered
        .filter_map(|(question, answer)| {
            let [question, answer] =
                [question, answer.as_str()?].map(|text| excerpt::of_text(text, limits::TARGET));
            Some(format!("Asked \"{question}\": {answer}"))
        })
        .collect()
}

/// The title of a plan that a person approved, and where the client keeps it.
fn plan(result: &Value) -> Option<String> {
    if result["awaitingLeaderApproval"] == true {
        return None;
    }
    let lines = result["plan"].as_str()?.lines();
    let mut titles = lines.map(|line| line.trim_start_matches('#').trim());
    let title = excerpt::of_text(titles.find(|line| !line.is_empty())?, limits::TARGET);
    let path = result["filePath"].as_str();
    let path = path.map_or(String::new(), |path| format!(" ({path})"));
    Some(format!("Plan approved: {title}{path}"))
}
