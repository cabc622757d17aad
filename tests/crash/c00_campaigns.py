"""Acknowledged means durable: under load, killed at any moment and at every named point, again and again."""
from campaign import Campaign
from conftest import KILLS_IN_CAMPAIGN


def test_every_acknowledged_change_stands_once_and_the_model_is_a_fresh_fold(tmp_path, campaign_seed):
    campaign = Campaign(tmp_path, campaign_seed)
    print("\n" + campaign.run(KILLS_IN_CAMPAIGN), flush=True)
    assert campaign.acked() > 20 * KILLS_IN_CAMPAIGN, "too little happened for the kills to mean anything"
