"""Thousands of requests that leave, fail and misbehave; then: what did the engine keep of them?"""
