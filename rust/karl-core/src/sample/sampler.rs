//! The axis of the samplers: by which law rows are drawn.

/// The axis: by which law rows are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Without replacement, in proportion to the weights of what is left.
    Gumbel,
    /// The law of [`Sampler::Gumbel`], by keys that know of one row alone, for streams.
    WeightedReservoir,
    /// Without replacement, all alike: weights are not looked at.
    Reservoir,
    /// With replacement, by k evenly spaced points: the copies of a row are its share rounded up or down.
    Systematic,
    /// With replacement, by k independent points.
    Multinomial,
    /// Every row that has a weight, in row order; its log weight goes with it.
    All,
}

impl Sampler {
    /// All samplers.
    pub const ALL: [Self; 6] = [
        Self::Gumbel,
        Self::WeightedReservoir,
        Self::Reservoir,
        Self::Systematic,
        Self::Multinomial,
        Self::All,
    ];

    /// Return the name the command line and the manifest use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gumbel => "gumbel",
            Self::WeightedReservoir => "weighted-reservoir",
            Self::Reservoir => "reservoir",
            Self::Systematic => "systematic",
            Self::Multinomial => "multinomial",
            Self::All => "all",
        }
    }

    /// Return the sampler of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sampler| sampler.name() == name)
    }

    /// Return whether a row can be drawn more than once.
    #[must_use]
    pub const fn replaces(self) -> bool {
        match self {
            Self::Systematic | Self::Multinomial => true,
            Self::Gumbel | Self::WeightedReservoir | Self::Reservoir | Self::All => false,
        }
    }
}
