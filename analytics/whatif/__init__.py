"""What a step would cost if some of its operations took what they should: pipeline dependency replay.

Method and definitions are those of "Understanding Stragglers in Large Model Training Using What-if Analysis"
(arXiv 2505.05713): the dependencies of a step are rebuilt from what was recorded, and replayed with any set of
operations at their ideal duration.
"""
