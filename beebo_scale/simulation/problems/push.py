"""Robot pushing: two hands push two things over a table, 14 inputs. Needs the engine Box2D.

Source: Wang, Gehring, Kohli, Jegelka, Batched large-scale Bayesian optimization in high-dimensional spaces, AISTATS
2018, and the authors' code (github.com/zi-w/Ensemble-Bayesian-Optimization), with whose values these agree. Nothing
is drawn on a screen. The engine counts in float32: another build of it may give other last digits, and a collision
may make much of them.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...errors import InputError
from .problem import Array, Problem

HAND = ((-5.0, 5.0), (-5.0, 5.0), (-10.0, 10.0), (-10.0, 10.0), (2.0, 30.0), (0.0, 2.0 * math.pi))
SPIN = (-5.0, 5.0)
START_POSITIONS = np.array([[0.0, 2.0], [0.0, -2.0]])  # of the two things
GOALS = np.array([[4.0, 3.5], [-4.0, 3.5]])
TYPICAL = -0.234  # mean over 16,384 uniform points, standard error 0.011
SECOND, STEP, SLIDE = 10, 0.01, 100  # steps for a unit of the inputs, seconds of a step, steps after the last push
SOLVER_ITERATIONS = 10  # of the engine's solvers
FORCE, TORQUE = 30.0, 30.0  # of a hand, for each unit of mass and of the velocity that it lacks


def push() -> Problem:
    """How much nearer to their goals two things are when two hands have pushed them; the inputs move the hands.

        f(x) = sum_i |s_i - g_i| - |p_i(x) - g_i|

    s_i, g_i and p_i are start, goal and last position of thing i. A hand has its place (2 inputs, [-5, 5]), velocity
    (2, [-10, 10]), duration (1, [2, 30] tenths of a second) and angle (1, [0, 2 pi]); after the 6 of each hand come
    two rates of turning (2, [-5, 5]). When measured, velocities are set with an error of standard deviation 0.01, as
    in the authors' code.

    f <= sum_i |s_i - g_i| = 11.07, where both things lie in their goals; nobody knows whether hands can bring them
    there. It is `best`. Three runs of CMA-ES with 2,500 tries each found 6.9 to 8.8. Starts are anywhere; of random
    points 39 % touch nothing, and f is 0.

    Raises:
        InputError: Box2D is not installed.
    """
    engine()
    return Problem(
        f=rewards,
        bounds=np.array([*HAND, *HAND, SPIN, SPIN]).T,
        best=float(np.linalg.norm(GOALS - START_POSITIONS, axis=-1).sum()),
        optima=np.empty((0, 14)),
        slip=np.array([0.0, 0.0, 0.01, 0.01, 0.0, 0.0] * 2 + [0.0, 0.0]),
        typical=TYPICAL,
    )


@cache
def engine() -> Any:
    """The module Box2D. Its import warns of its own types, and crashes where warnings are errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import Box2D
    except ImportError:
        raise InputError("the function push needs Box2D; install it by: pip install 'beebo-scale[push]'") from None
    return Box2D


def rewards(X: Array) -> Array:
    """The function of `push`, n x 14 -> n."""
    before = np.linalg.norm(GOALS - START_POSITIONS, axis=-1).sum()
    return np.array([before - np.linalg.norm(GOALS - play(x), axis=-1).sum() for x in X], dtype=np.float64)


@dataclass(frozen=True)
class Hand:
    """A rectangle of the engine that is pushed towards a velocity."""

    body: Any
    velocity: Any
    spin: float
    steps: int

    def push(self) -> None:
        """One step's force and torque."""
        body = self.body
        body.ApplyTorque(body.mass * (self.spin - body.angularVelocity) * TORQUE, wake=True)
        body.ApplyForce(body.mass * (self.velocity - body.linearVelocity) * FORCE, body.position, wake=True)


def play(x: Array) -> Array:
    """Last positions of both things, 14 -> 2 x 2. The order in which bodies are made decides the last digits."""
    b2 = engine()
    world = b2.b2World(gravity=(0.0, 0.0), doSleep=True)
    table = world.CreateStaticBody(position=(0.0, 0.0), shapes=b2.b2PolygonShape(box=(500.0, 500.0)))
    shapes = b2.b2PolygonShape(box=(0.5, 0.5)), b2.b2CircleShape(radius=1.0)
    things = [_thing(world, table, shape, place) for shape, place in zip(shapes, START_POSITIONS.tolist(), strict=True)]
    moves = x[:12].reshape(2, 6).tolist()
    hands = [_hand(world, table, move, spin) for move, spin in zip(moves, x[12:].tolist(), strict=True)]
    for step in range(max(hand.steps for hand in hands) + SLIDE):
        for hand in hands:
            if step < hand.steps:
                hand.push()
        world.Step(STEP, SOLVER_ITERATIONS, SOLVER_ITERATIONS)
    return np.array([list(thing.position) for thing in things])


def _thing(world: Any, table: Any, shape: Any, place: list[float]) -> Any:
    body = world.CreateDynamicBody(position=place)
    body.CreateFixture(shape=shape, density=0.05, friction=0.01)
    world.CreateFrictionJoint(bodyA=table, bodyB=body, maxForce=5.0, maxTorque=2.0)
    return body


def _hand(world: Any, table: Any, move: list[float], spin: float) -> Hand:
    b2 = engine()
    x, y, vx, vy, duration, angle = move
    body = world.CreateDynamicBody(position=(x, y), angle=angle)
    body.CreateFixture(shape=b2.b2PolygonShape(box=(1.0, 0.3)), density=0.1, friction=0.1)
    world.CreateFrictionJoint(bodyA=table, bodyB=body, maxForce=2.0, maxTorque=2.0)
    return Hand(body, b2.b2Vec2(vx, vy), spin, int(duration * SECOND))
