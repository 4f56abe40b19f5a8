//! What is said of money, tokens, turns and full windows.

use ekiden_core::budget::{Budget, Mark, Measure, Spend};

use super::line::{Line, Tone};
use super::news::{FilledNews, SpendNews};
use super::phrase;

/// Kinds of content named on a line.
const KINDS_TOLD: usize = 4;
/// A dollar, in millionths.
const DOLLAR: u64 = 1_000_000;

/// `$10.00`, `500k tokens`; nothing if there is no limit.
#[must_use]
pub fn budget(budget: Budget) -> Option<String> {
    let money = budget.micro_usd.map(phrase::money);
    let tokens = budget.tokens.map(|tokens| format!("{} tokens", phrase::tokens(tokens)));
    let limits: Vec<String> = money.into_iter().chain(tokens).collect();
    (!limits.is_empty()).then(|| limits.join(" and "))
}

/// How a budget came to its end.
#[must_use]
pub fn budget_spent(spent: Spend, budget: Budget) -> String {
    match (binding(spent, budget), budget) {
        (Measure::Tokens, Budget { tokens: Some(limit), .. }) => {
            let (used, limit) = (phrase::tokens(spent.tokens), phrase::tokens(limit));
            format!("the budget has no room for another session: {used} of {limit} tokens are used")
        }
        (_, budget) => {
            let (used, limit) = (
                phrase::cost(spent.micro_usd, spent.estimated, false),
                phrase::money(budget.micro_usd.unwrap_or(0)),
            );
            format!("the budget has no room for another session: {used} of {limit} is spent")
        }
    }
}

/// The command that goes on: with as much again as the budget was.
#[must_use]
pub fn next_budget(spent: Spend, budget: Budget) -> String {
    match (binding(spent, budget), budget) {
        (Measure::Tokens, Budget { tokens: Some(limit), .. }) => {
            format!("ekiden resume --run-tokens {}", limit.saturating_add(spent.tokens))
        }
        (_, budget) => {
            let all = budget.micro_usd.unwrap_or(0).saturating_add(spent.micro_usd);
            format!("ekiden resume --run-budget {}", all.div_ceil(DOLLAR))
        }
    }
}

/// The measure of which less is left.
fn binding(spent: Spend, budget: Budget) -> Measure {
    let part = |spent: u64, limit: Option<u64>| {
        limit.map_or(0, |limit| u128::from(spent) * 1000 / u128::from(limit.max(1)))
    };
    let tokens = part(spent.tokens, budget.tokens) > part(spent.micro_usd, budget.micro_usd);
    if tokens { Measure::Tokens } else { Measure::Money }
}

/// The line of a mark.
#[must_use]
pub fn spend(news: &SpendNews) -> Line {
    let what = match news.measure {
        Measure::Money => phrase::cost(news.cost_micro_usd, news.estimated, false),
        Measure::Tokens => format!("{} tokens", phrase::tokens(news.tokens)),
        Measure::Turns => phrase::count(u64::from(news.turns), "turn"),
    };
    let session = news.session;
    match news.mark {
        Mark::Nearly => {
            let label = if news.measure == Measure::Turns { "turns" } else { "budget" };
            Line::labelled(label, Tone::Quiet, format!("{what} used; session {session} is asked to hand off"))
        }
        Mark::Spent => {
            Line::attention(format!("session {session} has used all it may ({what}); its turn is ended"))
        }
        Mark::Beyond => {
            Line::attention(format!("session {session} went on after that ({what}); it is ended"))
        }
    }
}

/// The line of a window that is full before the work begins.
#[must_use]
pub fn window_full(news: &FilledNews) -> Line {
    let tokens = phrase::tokens(news.usage_tokens);
    let part = news.percent.map_or(String::new(), |percent| format!("{percent}% of the window, "));
    let by = filled_by(&news.filled_by);
    Line::attention(format!("the first response already takes {part}{tokens} tokens{by}"))
}

/// What a person can do about a window that is too full.
#[must_use]
pub fn window_remedy(by: &[(String, u64)]) -> Vec<Line> {
    let filled = filled_by(by);
    let what = Line::new(Tone::Plain, format!("what fills it{filled}"));
    let remedy = "give the agent fewer tools, servers and standing files, a shorter task, or a larger window";
    let remedy = Line::new(Tone::Plain, format!("what to do:  {remedy} (--model, --context-cap-tokens)"));
    if by.is_empty() { vec![remedy] } else { vec![what, remedy] }
}

fn filled_by(by: &[(String, u64)]) -> String {
    if by.is_empty() {
        return String::new();
    }
    let kinds =
        by.iter().take(KINDS_TOLD).map(|(name, tokens)| format!("{name} {}", phrase::tokens(*tokens)));
    format!(": {}", kinds.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(micro_usd: u64, tokens: u64) -> Spend {
        Spend { micro_usd, tokens, estimated: true }
    }

    // shows: REL-22
    #[test]
    fn the_command_that_goes_on_names_a_budget_that_is_not_spent() {
        let money = Budget { micro_usd: Some(10 * DOLLAR), tokens: None };
        assert_eq!(next_budget(spent(10_020_000, 5), money), "ekiden resume --run-budget 21");
        let tokens = Budget { micro_usd: Some(10 * DOLLAR), tokens: Some(1000) };
        assert_eq!(next_budget(spent(DOLLAR, 1001), tokens), "ekiden resume --run-tokens 2001");
        assert_eq!(
            budget_spent(spent(10_020_000, 5), money),
            "the budget has no room for another session: ≈$10.02 of $10.00 is spent"
        );
        assert_eq!(budget(tokens).as_deref(), Some("$10.00 and 1k tokens"));
        assert_eq!(budget(Budget::default()), None);
    }
}
