//! Numbers that look random and can be repeated.

/// A generator (splitmix64): the same seed, the same numbers.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// A number below the count; 0 where that is 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = count.max(1) as u64;
        usize::try_from((bits ^ (bits >> 31)) % bound).unwrap_or(0)
    }
}
