"""Words of questions about specific rules: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

RULES: Final = listed("""
    a fine for, ability check*, ability score*, able to attack, able to cast, able to move, able to use, access
    level, according to, advantage, after i roll, after rolling, against the, alignment, alimony, allowance,
    allowed, am i able, am i still, am i supposed, amendment, an action, annual leave, anonymi*, applies, apply for,
    apply if, apply to, apply when, approval, are players, are they able, are we able, are we supposed, area of
    effect, armor class, armour class, at level, at most, at what age, at what point, attack of opportunity, attack
    roll*, attune*, attunement, authoris*, authority to, authoriz*, baggage, bail, ban on, banned, be able to,
    beats, before rolling, binding, bonus action*, book says, breach of, building code, by the book, bylaw*, cabin
    bag*, can a, can an, can anybody, can anyone, can both, can children, can creatures, can dwarves, can each, can
    elves, can employees, can every, can guests, can he, can i, can it, can members, can minors, can more than, can
    multiple, can my, can non, can one, can only, can our, can people, can players, can she, can somebody, can
    someone, can the, can they, can two, can visitors, can we, can you attack, can you cast, can you castle, can you
    combine, can you have two, can you only, can you ready, can you still, cancellation*, cantrip*, cap on, carry
    capacity, carry on bag*, carry weapons, carrying capacity, cast a spell, cast it as, cast two, cast while,
    castling, ceiling, chargeback, charter, check out time, checkmate, checkout time, citizenship, clarif*, clarify,
    class feature*, clause*, clearance, code of conduct, collateral, compensat*, complian*, compliance, comply,
    component*, compulsory, concentration, conditions, consent, considered, constitution, contract*, cooling off,
    copyright*, could a, could an, count, counted as, counterspell, counts as, counts for, counts toward*, counts
    when, court, cover bonus, covered, crit on, criteria, criterion, critical fail*, critical hit*, critical
    success*, curfew, custody, custom, customs, cut off date, cut off for, cutoff, damage from, damage on a, damage
    type*, data protection, days notice, days of leave, deadline*, deal damage, deals damage, death save*, death
    saving, decree*, deductible, deductions, defined as, definition of, deposit, difficult terrain, difficulty
    class, difficulty for, difficulty of, disadvantage, discard*, disclos*, discount, dispel*, do all, do attacks,
    do both, do children, do creatures, do critical*, do damage, do dwarves, do elves, do employees, do guests, do
    i, do members, do monsters, do my, do our, do players, do spell*, do these, do they, do those, do two, do
    visitors, do we need, do weapons, do you have to, do you need to, does, double damage, double dribble, draw a
    card, dress code, drinking age, drone*, due date, duty free, each round, each turn, edge case*, edict*, eligib*,
    en passant, encumbrance, end of a turn, end of my turn, end of the turn, enforceable, entitled, errata,
    etiquette, every round, every turn, evict*, exception*, exempt*, exhaustion, expense*, expenses, experience
    points, expire*, expiry, extra attack, extra time, extra turn, fair game, fall damage, falling damage, felony,
    fifth edition, fifth level, fined, fines, fire damage, firearm*, fireworks, first level, flank*, forbidden,
    foul, fouls, fourth level, free action, free kick, free throw, full action, full cover, gdpr, grace period,
    grappl*, guarantee*, guideline*, half cover, half damage, hand size, handball, handbook, handled if, handled
    when, have the right, hazard*, higher level, hit dice, hit points, how big can, how close, how early, how fast
    can, how fast may, how high can, how large, how late can, how late may, how long can, how long do, how long may,
    how much, how much is it worth, how often, how old do, how old must, how soon, if a, if an, if both, if he, if
    i, if it, if my, if neither, if no one, if nobody, if one, if somebody, if someone, if the, if there, if they,
    if two, if we, if your, illegal*, immune to, immunity, in a round, in a turn, in accordance, in baseball, in
    basketball, in bounds, in breach, in bridge, in catan, in checkers, in chess, in cricket, in d&d, in dnd, in
    football, in golf, in hockey, in monopoly, in one turn, in poker, in rugby, in scrabble, in soccer, in tennis,
    in uno, in what case*, in writing, incapacitated, inheritance, initiative order, inspected, inspection*,
    insurance, insured, interest rate, interpretation of, invalid, invisib*, is a character, is a creature, is a
    player, is a spell, is able to, is he able, is it a crime, is it a free, is it against, is it better to, is it
    enough to, is it fine to, is it ok to, is it okay to, is it possible to, is supposed, is the player, is tied,
    jury, landlord, late fee*, late payment, law, lawful, laws, lawsuit, lease, legal*, legally, legislation, level
    five, level one, level three, level two, level up, leveling, liability, liable, licence*, license*, limit,
    limits, line of sight, long rest, loophole*, lose a turn, luggage, magic item*, mandatory, manual, maternity,
    maximum, may a, may an, may i, may my, may not, may only, may players, may the, may they, may we, may you,
    minimum, misdemeanor, misdemeanour, modifier*, months notice, mortgage, movement speed, multiclass*, must a,
    must an, must i, must the, must they, must we, must you, my action, my movement, my speed, nat 20, nat twenty,
    natural one, natural twenty, need to roll, next turn, norm, norms, notar*, notice period, notice period*, oath*,
    obligat*, obliged, off hand, offence, offense, official*, officially, offside, old enough, on a critical, on a
    failure, on a hit, on a miss, on a natural, on a success*, on a tie, on initiative, on my turn, on their turn,
    on what grounds, on your turn, once per, opportunity attack*, opposed check, opt in, opt out, ordinance, out of
    bounds, out of turn, outrank*, overdraft, overdue, override*, overtime, paragraph*, paralyzed, parental leave,
    park here, park in front, parking, part of the action, pass go, patent*, paternity, payable, payout, penalt*,
    per day, per diem, per encounter, per level, per month, per person, per player, per rest, per round, per turn,
    per week, per year, perception check*, permissible, permission, permit, permits, permitted, pets, points are,
    points do, points is, points worth, policies, policy, privacy, probate, probation, procedure*, proficien*,
    prohibited, prone, protocol*, punishable, punished, punishment*, qualif*, quiet hours, quota, range of, ratio,
    ration, re-roll*, reaction, reactions, red card, referee, refund*, regulated, regulation*, reimburs*, rent
    increase*, required, requirement*, reroll*, residency, resistan*, resolved, restricted, restriction*, retention,
    return window, returns, right of way, rights, roll again, roll doubles, rule*, rulebook*, ruling*, safety, same
    round, same turn, save against, saving throw*, seat belt*, second level, section*, short rest, sick leave, sign
    off, signature*, skill check*, skip a turn, smoking, sneak attack*, specification*, spell level, spell save,
    spell slot*, stack, stacking, stacks, stalemate, standard for, standard operating, standard rate, start of a
    turn, start of my turn, start of the turn, statute*, statutory, stealth check*, strength check*, strictly
    speaking, subclass, sublet*, subsection, supersede*, supposed to, surcharge, surprise round, taboo*, tailgating,
    take damage, take precedence, takes damage, takes precedence, takes priority, tax, taxable, taxes, technically,
    tell me whether, temporary hit, tenancy, tenant*, terms of, the book say, the fine for, the right to, the terms,
    third level, threshold, tie break*, tie breaker, tiebreak*, tolerance, trademark*, tradition*, treated as,
    trespass*, twice per, two handed, two weapon, umpire, unconscious, under what, unlawful, unpaid leave,
    unsubscribe, use my bonus, use two, vacation days, valid, validity, variant, vat, victory points, violat*,
    voting age, vow*, vulnerab*, warranty, weeks notice, what ability, what are my, what are our, what bonus, what
    constitutes, what counts, what dice, what die, what do the, what do you need, what documents, what happens at,
    what happens in, what happens on, what happens to, what happens when, what if, what is the, what kind of action,
    what level, what makes a, what order, what size, what triggers, what type of action, what's our, what's the age,
    what's the area, what's the bonus, what's the correct, what's the cost, what's the damage, what's the dc, what's
    the difference, what's the difficulty, what's the duration, what's the fee, what's the fine, what's the notice,
    what's the process, what's the proper, what's the range, what's the speed, when i roll, when you roll, while
    concentrating, while driving, while flying, while holding, while mounted, while on duty, while raging, while
    wearing, wild card*, wild shape, win condition*, without a ticket, without notice, without paying, without
    telling, witness*, yellow card, zoning
""")
"""Specific rules: of a game, a house, a contract, a law."""
